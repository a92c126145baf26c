package main

import (
	"time"

	"github.com/alecthomas/kong"
)

// runFlags are the settings of a training run. The same struct gives the
// flags, their help and the keys of the YAML file (-c); flags win over the file.
type runFlags struct {
	Config kong.ConfigFlag `short:"c" xor:"config" placeholder:"FILE" yaml:"-" json:"-" help:"YAML file with keys named like these flags; flags win."`

	Model      string   `default:"convnet" placeholder:"NAME" yaml:"model" json:"model" help:"Model: ${models} (default ${default})." group:"Data and model"`
	Dataset    string   `default:"mnist" placeholder:"NAME" yaml:"dataset" json:"dataset" help:"Data set: ${datasets} (default ${default})." group:"Data and model"`
	DataDir    string   `placeholder:"DIR" yaml:"data-dir" json:"data_dir,omitempty" help:"Folder that holds the data set's files (default: the Go module cache, or a download)." group:"Data and model"`
	Offline    bool     `yaml:"offline" json:"offline,omitempty" help:"Never touch the network for data: what is not on disk is an error." group:"Data and model"`
	Mirror     []string `sep:"none" placeholder:"URL" yaml:"mirror" json:"mirror,omitempty" help:"Folder to download the data set's files from, tried before the public ones; repeatable. SHA-256 sums are checked in any case." group:"Data and model"`
	Init       string   `placeholder:"FILE" yaml:"init" json:"init,omitempty" help:"Begin with the parameters and buffers of a safetensors file named and laid out as in PyTorch." group:"Data and model"`
	InitExcept []string `placeholder:"GLOB" sep:"none" yaml:"init-except" json:"init_except,omitempty" help:"Entries that --init leaves as they are drawn, such as 'fc.*'; repeatable." group:"Data and model"`
	Augment    string   `default:"auto" placeholder:"LIST" yaml:"augment" json:"augment" help:"Changes of the training images, separated by commas: crop (padded by 4; crop=2: by 2), reflect (the padding mirrors the image in place of black), flip (every image in half of the epochs, at random), alternate (in every second one, in place of flip), cutout (half the width); none; or auto: crop,flip for cifar10 and cifar100." group:"Data and model"`

	Epochs     int     `default:"3" placeholder:"N" yaml:"epochs" json:"epochs" help:"Passes over the training set (default ${default})." group:"Training"`
	Steps      int     `placeholder:"N" yaml:"steps" json:"steps,omitempty" help:"End after this many steps, if that is sooner." group:"Training"`
	Batch      int     `default:"64" placeholder:"N" yaml:"batch" json:"batch" help:"Images a step (default ${default})." group:"Training"`
	Accumulate int     `default:"1" placeholder:"N" yaml:"accumulate" json:"accumulate" help:"Batches whose gradients are averaged into one step (default ${default})." group:"Training"`
	Smoothing  float64 `name:"label-smoothing" placeholder:"X" yaml:"label-smoothing" json:"label_smoothing,omitempty" help:"Part of a label that is spread over all classes, in the losses of training and of the test set." group:"Training"`
	Seed       uint64  `default:"1" placeholder:"N" yaml:"seed" json:"seed" help:"Seed of everything drawn at random (default ${default})." group:"Training"`
	Threads    int     `placeholder:"N" yaml:"threads" json:"threads" help:"Goroutines that compute in this process (default: the processor's cores)." group:"Training"`

	Optimizer     string   `default:"sgd" placeholder:"NAME" yaml:"optimizer" json:"optimizer" help:"Optimiser: ${optimizers} (default ${default})." group:"Optimiser"`
	LR            float64  `name:"lr" placeholder:"X" yaml:"lr" json:"lr" help:"Learning rate; of one-cycle the peak (default 0.01 for sgd, 0.001 for adam; the rest likewise as in PyTorch)." group:"Optimiser"`
	Momentum      *float64 `placeholder:"X" yaml:"momentum" json:"momentum" help:"Momentum of sgd and rmsprop (default 0.9 for sgd)." group:"Optimiser"`
	CycleMomentum float64  `placeholder:"X" yaml:"cycle-momentum" json:"cycle_momentum,omitempty" help:"With one-cycle and sgd: the momentum falls from --momentum to this while the rate rises, and rises again (0.95 and 0.85 are usual)." group:"Optimiser"`
	Clip          float64  `placeholder:"NORM" yaml:"clip" json:"clip,omitempty" help:"Largest norm of all gradients together, of placed layers too (of a resident convolution the gradient is computed here once more for that)." group:"Optimiser"`
	WeightDecay   float64  `placeholder:"X" yaml:"weight-decay" json:"weight_decay" help:"L2 penalty (default 0). In YAML also groups, a list of {params: GLOB, lr: X in place of --lr, weight-decay: X, freeze: true}: the first match wins." group:"Optimiser"`
	NoDecay       []string `sep:"none" placeholder:"GLOB" yaml:"no-decay" json:"no_decay,omitempty" help:"Parameters without weight decay, such as '*.bias'; 'vectors': those of one dimension, that is biases and normalisation; repeatable; wins over groups." group:"Optimiser"`
	Nesterov      bool     `yaml:"nesterov" json:"nesterov" help:"Nesterov's form of momentum." group:"Optimiser"`
	Schedule      string   `default:"cosine" placeholder:"NAME" yaml:"schedule" json:"schedule" help:"Learning rate over the steps: ${schedules} (default ${default})." group:"Optimiser"`
	EMA           float64  `name:"ema" placeholder:"DECAY" yaml:"ema" json:"ema,omitempty" help:"Evaluate and keep an exponential moving average of the weights: the part of it that a step keeps, such as 0.999 (at step t at most (1+t)/(10+t)); buffers are the newest. Local layers only." group:"Optimiser"`
	WarmUp        int      `name:"warm-up" placeholder:"N" yaml:"warm-up" json:"warm_up,omitempty" help:"Steps of linear warm-up before the schedule." group:"Optimiser"`
	Rise          float64  `placeholder:"X" yaml:"rise" json:"rise,omitempty" help:"Part of the steps in which the rate of one-cycle rises (default 0.3)." group:"Optimiser"`
	Linear        bool     `yaml:"linear" json:"linear,omitempty" help:"The rate of one-cycle rises and falls along straight lines, not half cosines." group:"Optimiser"`

	Placement string `default:"auto" placeholder:"NAME" yaml:"placement" json:"placement" help:"Where the layers' products are computed: auto (large linear layers resident on the workers; if those of --join have told their --pace, each layer as train plan says: resident, batch, shipped with a code of its own, or local), resident (every linear layer and convolution that can be), batch (parts of the batch are coded; weights are sent each step; any optimiser), shipped (both factors of every product are coded and sent; any optimiser; wants a --code of two factors), local (default ${default}). In YAML also placements, a list of {layer: GLOB, placement, code, k, gradient (of batch: workers, or a code for sums of gradients: that of the weights is computed by the workers too), m, p, q (of shipped: blocks of the factors, m x p and p x q)}: the first match wins." group:"Placement"`
	Code      string `default:"trigonometric" placeholder:"NAME" yaml:"code" json:"code" help:"Code of the placed layers: ${codes} (default ${default}); of shipped ones ${twosided}." group:"Placement"`
	K         int    `name:"k" placeholder:"N" yaml:"k" json:"k" help:"Answers that suffice (default: two thirds of the workers)." group:"Placement"`
	N         int    `name:"n" placeholder:"N" yaml:"n" json:"n" help:"Shards of a placed layer (default: one a worker of --workers, or with --workers 0 of those that have joined); more than workers want --seats." group:"Placement"`

	Workers    int           `default:"6" placeholder:"N" yaml:"workers" json:"workers" help:"Worker processes to start on this machine; 0: none, use --join (default ${default})." group:"Cluster"`
	Seats      int           `default:"1" placeholder:"N" yaml:"seats" json:"seats" help:"Shards of a layer that a worker can hold: with --n above the number of workers each holds as many as suit its long-run speed, and --seats leaves room for more than the mean (default ${default})." group:"Cluster"`
	Losses     int           `placeholder:"N" yaml:"losses" json:"losses,omitempty" help:"Workers that may be lost at a time without a step waiting: shards beyond what that takes are left out where slow workers would make steps longer by holding them (default: none is left out)." group:"Cluster"`
	Join       []string      `placeholder:"HOST:PORT" yaml:"join" json:"join,omitempty" help:"Members of a cluster to join, separated by commas." group:"Cluster"`
	MinWork    int           `name:"min-workers" placeholder:"N" yaml:"min-workers" json:"min_workers" help:"Workers to wait for before the first step (default: --workers, or 1)." group:"Cluster"`
	Key        string        `placeholder:"FILE" yaml:"key" json:"-" help:"Cluster key; without --join a key is made for the run." group:"Cluster"`
	Bind       string        `default:"127.0.0.1:0" placeholder:"ADDR" yaml:"bind" json:"bind" help:"Address of this process in the cluster (default ${default}: a free port)." group:"Cluster"`
	Advertise  string        `placeholder:"ADDR" yaml:"advertise" json:"advertise,omitempty" help:"Address that others use to reach it, if another." group:"Cluster"`
	Verify     bool          `yaml:"verify" json:"verify,omitempty" help:"Test what workers answer before it is used (Freivalds' test, whatever the placement); one that answers wrongly, by a flipped bit as well, is quarantined for a while and then repaired." group:"Cluster"`
	MaxCond    float64       `name:"max-condition" placeholder:"X" yaml:"max-condition" json:"max_condition,omitempty" help:"Largest condition number of the answers that a product is decoded from: above it one more is awaited, and another, for no longer than the round took until then (default: no limit; above 1e5 a step fails)." group:"Cluster"`
	DriftEvery int           `placeholder:"N" yaml:"drift-every" json:"drift_every,omitempty" help:"Every N steps, compare the coded copies of resident layers, each of which rounds in its own way, with a new encoding of their weights (default: never; it takes about as long as a checkpoint)." group:"Cluster"`
	DriftLimit float64       `default:"1e-4" placeholder:"X" yaml:"drift-limit" json:"drift_limit,omitempty" help:"A layer whose copies differ by more than this part of the largest weight is encoded anew, with its momentum (default ${default})." group:"Cluster"`
	Wait       time.Duration `placeholder:"DURATION" yaml:"wait" json:"wait,omitempty" help:"How long too few workers are waited for (default: 30s before the first step, and not at all later)." group:"Cluster"`

	Pace      float64  `placeholder:"GFLOPS" yaml:"pace" json:"pace,omitempty" help:"Local workers behave like devices of that speed." group:"Faults and tests"`
	Inject    []string `sep:"none" placeholder:"SPEC" yaml:"inject" json:"inject,omitempty" help:"Fault WHAT:WHO@WHEN, repeatable: kill:2@step=100, restart:2@step=150, freeze:3@step=50,for=5s, partition:4@step=80,for=3s (its network is silent), slow:1+4@x=4, slow:*@shifted-exp=1,0.5, slow:*@pareto=1,2, drop:5@p=0.05 (answers are lost), corrupt:6@p=0.01 (answers are wrong)." group:"Faults and tests"`
	Survivors string   `default:"fastest" enum:"fastest,random" placeholder:"HOW" yaml:"survivors" json:"survivors" help:"Which answers are used: fastest, or random (a random sufficient set for every product, for tests) (default ${default})." group:"Faults and tests"`
	Record    string   `placeholder:"FILE" yaml:"record" json:"-" help:"Write which answers each decoding used." group:"Faults and tests"`
	Replay    string   `placeholder:"FILE" yaml:"replay" json:"-" help:"Use the answers of a recorded run: the same bits." group:"Faults and tests"`

	Observe    observeFlags `embed:"" yaml:",inline" json:"-"`
	Trace      string       `placeholder:"FILE" yaml:"trace" json:"-" help:"Write a timeline of rounds and tasks as a Chrome trace, for chrome://tracing or Perfetto." group:"Observing"`
	TraceSteps int          `default:"100" placeholder:"N" yaml:"trace-steps" json:"-" help:"Steps in the timeline (default ${default})." group:"Observing"`

	Out             string     `placeholder:"DIR" yaml:"out" json:"out" help:"Run folder: config, metrics.jsonl, checkpoints, logs (default: a new folder in runs)." group:"Files"`
	CheckpointEvery int        `placeholder:"N" yaml:"checkpoint-every" json:"checkpoint_every,omitempty" help:"Write a checkpoint every N steps, besides the one at the end of each epoch." group:"Files"`
	Resume          resumeFlag `xor:"config" placeholder:"DIR" yaml:"-" json:"resume,omitempty" help:"Go on from the newest whole checkpoint of this run folder, with its settings; flags win." group:"Files"`
	JSON            string     `name:"json" placeholder:"PATH" yaml:"json" json:"-" help:"Write the events, one JSON object a line ('-': to standard output, and nothing else there)." group:"Files"`
}
