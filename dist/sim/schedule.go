package sim

import "github.com/coda-ml/coda/dist/internal/schedule"

// Schedule decides during a round what workers do: see its methods. It is the
// one that the coordinator of package dist drives, with times in units of a
// shard's time from the start of the round.
type Schedule = schedule.Schedule
