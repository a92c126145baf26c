package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/atomicfile"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// A checkpoint is a folder, step-00000300, with the files
//
//	model.safetensors      parameters and buffers, named and laid out as in PyTorch
//	training.safetensors   the same with the weights that training goes on from,
//	                       where the model has their averages (Config.EMA)
//	optimizer.safetensors  what the optimiser remembers
//	state.json             where the run stands
//
// It is made under another name and renamed when all files are on disk, so
// that a folder of this name is whole. A process that dies meanwhile leaves the
// other name behind: the next checkpoint removes it.
const (
	checkpointPrefix = "step-"
	unfinishedPrefix = ".unfinished-"
	modelFile        = "model.safetensors"
	trainingFile     = "training.safetensors"
	optimizerFile    = "optimizer.safetensors"
	stateFile        = "state.json"
)

// checkpointVersion is the version of the layout.
const checkpointVersion = 1

// keptCheckpoints is how many checkpoints of a run are kept: the newest ones.
const keptCheckpoints = 3

// Origin says what, besides the position, decides which batches are still to come.
type Origin struct {
	Seed      uint64 `json:"seed"`
	BatchSize int    `json:"batch_size"`
}

// Checkpoint is the content of state.json.
type Checkpoint struct {
	Version int `json:"version"`
	Position
	Origin
	Updates  int                 `json:"updates"` // of the optimiser
	Plateau  *optim.PlateauState `json:"plateau,omitempty"`
	Averaged int                 `json:"averaged,omitempty"` // steps in the averages, where the model has those

	// Averages are for optim.EMA; nil where the model has the weights themselves.
	Averages *optim.State `json:"-"`

	// Momenta of parameters that were placed when the checkpoint was written
	// or are to be placed now: all momentum buffers, by parameter.
	Momenta nn.Momenta `json:"-"`
	// Dir is the folder that LoadNewest has read.
	Dir string `json:"-"`
	// Broken says why LoadNewest has passed over newer folders.
	Broken []error `json:"-"`
}

// WriteCheckpoint writes the state between two steps into a new folder in dir,
// which must exist, and returns the folder's path. Weights and momenta of
// placed layers are decoded from the workers first. Older checkpoints beyond
// the newest three are removed afterwards. If this trainer has written the step
// already, that checkpoint is left as it is; another's of that step, such as
// a broken one that LoadNewest passed over, is replaced.
func (t *Trainer) WriteCheckpoint(ctx context.Context, dir string, o Origin) (string, error) {
	name := checkpointName(t.pos.Step)
	path := filepath.Join(dir, name)
	if path == t.written {
		return path, nil
	}
	momenta, err := nn.Sync(ctx, t.config.Model)
	if err != nil {
		return "", err
	}
	if err := removeUnfinished(dir); err != nil {
		return "", err
	}
	tmp := filepath.Join(dir, unfinishedPrefix+name)
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return "", err
	}
	if err := t.writeFiles(tmp, momenta, o); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.RemoveAll(path); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	if err := atomicfile.RenameFolder(tmp, path); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	t.written = path
	return path, removeOld(dir)
}

func (t *Trainer) writeFiles(dir string, momenta nn.Momenta, o Origin) error {
	state := t.config.Optimizer.State()
	var tensors []nn.NamedTensor
	for _, b := range state.Tensors {
		// What the optimiser may hold of a placed parameter is from before it was placed.
		if name, _ := strings.CutSuffix(b.Name, momentumSuffix); momenta[name] == nil {
			tensors = append(tensors, flat(b.Name, b.Data))
		}
	}
	for _, p := range t.named {
		if v := momenta[p.Name]; v != nil {
			tensors = append(tensors, flat(p.Name+momentumSuffix, v))
		}
	}
	c := Checkpoint{Version: checkpointVersion, Position: t.pos, Origin: o, Updates: state.Updates}
	if t.averages() {
		c.Averaged = t.config.EMA.Updates()
	}
	if t.config.Plateau != nil {
		p := t.config.Plateau.State()
		c.Plateau = &p
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := t.writeModel(dir); err != nil {
		return err
	}
	if err := nn.SaveTensors(filepath.Join(dir, optimizerFile), tensors, nil); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, stateFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// writeModel writes the model, and where it has averages the weights as well.
func (t *Trainer) writeModel(dir string) error {
	save := func(name string) error { return nn.SaveState(filepath.Join(dir, name), t.config.Model, nil) }
	if t.averages() {
		if err := save(trainingFile); err != nil {
			return err
		}
	}
	return t.withAverages(func() error { return save(modelFile) })
}

const momentumSuffix = "." + optim.MomentumBuffer

func flat(name string, data []float32) nn.NamedTensor {
	return nn.NamedTensor{Name: name, Tensor: coded.Tensor{Shape: []int{len(data)}, Data: data}}
}

// checkpointName names the folder of a step. The zeros are for people who list
// the folder; nothing here depends on them.
func checkpointName(step int) string { return fmt.Sprintf("%s%08d", checkpointPrefix, step) }

// checkpoints lists the names of the whole checkpoints in dir, oldest first.
// What has another name is none of ours.
func checkpoints(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var steps []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), checkpointPrefix)
		step, err := strconv.Atoi(digits)
		if ok && err == nil && e.IsDir() && e.Name() == checkpointName(step) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = checkpointName(step)
	}
	return names, nil
}

// removeUnfinished removes what writers that died have left behind.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var problems []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinishedPrefix+checkpointPrefix) {
			problems = append(problems, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(problems...)
}

func removeOld(dir string) error {
	names, err := checkpoints(dir)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range names[:max(0, len(names)-keptCheckpoints)] {
		problems = append(problems, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(problems...)
}

// LoadNewest reads the newest checkpoint in dir that can be read into the
// parameters of the model and into the optimiser. Folders that cannot be read
// are passed over and reported in Broken; one that is of another model or
// optimiser is an error. The momenta of layers that are to be placed are for
// nn.Place, Averages and Plateau for what they are named after. An error leaves the optimiser as it was.
func LoadNewest(dir string, model nn.Module, o optim.Optimizer) (Checkpoint, error) {
	names, err := checkpoints(dir)
	if err != nil {
		return Checkpoint{}, err
	}
	if len(names) == 0 {
		return Checkpoint{}, fmt.Errorf("%s holds no checkpoint", dir)
	}
	var broken []error
	for _, name := range slices.Backward(names) {
		c, state, err := load(filepath.Join(dir, name), model)
		var misfit *nn.StateError
		switch {
		case err == nil:
			c.Broken = broken
			return c, o.LoadState(state)
		case errors.As(err, &misfit):
			return Checkpoint{}, err
		}
		broken = append(broken, err)
	}
	return Checkpoint{}, errors.Join(broken...)
}

// LoadModel reads the model of a checkpoint, and nothing else, from its folder,
// or of the newest one that can be read from a folder of checkpoints. It is the
// model to use: with averages (Config.EMA), these.
func LoadModel(dir string, model nn.Module) (Checkpoint, error) {
	paths := []string{dir}
	if _, err := os.Stat(filepath.Join(dir, stateFile)); errors.Is(err, fs.ErrNotExist) {
		names, err := checkpoints(dir)
		if err != nil {
			return Checkpoint{}, err
		}
		if len(names) == 0 {
			return Checkpoint{}, fmt.Errorf("%s holds no checkpoint", dir)
		}
		paths = nil
		for _, name := range slices.Backward(names) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	var broken []error
	for _, path := range paths {
		c := Checkpoint{Dir: path, Broken: broken}
		err := readState(filepath.Join(path, stateFile), &c)
		if err == nil {
			_, err = nn.LoadState(filepath.Join(path, modelFile), model)
		}
		if misfit := (*nn.StateError)(nil); err == nil || errors.As(err, &misfit) {
			return c, err
		}
		broken = append(broken, err)
	}
	return Checkpoint{}, errors.Join(broken...)
}

// load reads a checkpoint into the model and returns it with the state of the optimiser.
func load(dir string, model nn.Module) (Checkpoint, optim.State, error) {
	c := Checkpoint{Dir: dir, Momenta: nn.Momenta{}}
	var state optim.State
	if err := readState(filepath.Join(dir, stateFile), &c); err != nil {
		return c, state, err
	}
	tensors, _, err := nn.LoadTensors(filepath.Join(dir, optimizerFile))
	if err != nil {
		return c, state, err
	}
	if err := c.readModel(dir, model); err != nil {
		return c, state, err
	}
	state.Updates = c.Updates
	for _, b := range tensors {
		if name, ok := strings.CutSuffix(b.Name, momentumSuffix); ok {
			c.Momenta[name] = b.Data
		}
		state.Tensors = append(state.Tensors, optim.Tensor{Name: b.Name, Data: b.Data})
	}
	slices.SortFunc(state.Tensors, func(a, b optim.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return c, state, nil
}

// readModel reads the weights that training goes on from into the model, and
// the averages if there are any.
func (c *Checkpoint) readModel(dir string, model nn.Module) error {
	if _, err := nn.LoadState(filepath.Join(dir, modelFile), model); err != nil || c.Averaged == 0 {
		return err
	}
	named, err := nn.Params(model)
	if err != nil {
		return err
	}
	c.Averages = &optim.State{Updates: c.Averaged}
	for _, p := range averaged(named) {
		c.Averages.Tensors = append(c.Averages.Tensors, optim.Tensor{Name: p.Name + "." + optim.Average, Data: slices.Clone(p.Value)})
	}
	_, err = nn.LoadState(filepath.Join(dir, trainingFile), model)
	return err
}

// readState reads state.json.
func readState(path string, c *Checkpoint) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Version != checkpointVersion {
		return fmt.Errorf("%s: version %d, want %d", path, c.Version, checkpointVersion)
	}
	return nil
}
