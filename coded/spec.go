package coded

// Spec names a code in plain data, so that it can travel: New builds it.
type Spec struct {
	Name string // "trigonometric", "replication", "uncoded"
	N    int    // tasks (slots)
	K    int    // blocks
}
