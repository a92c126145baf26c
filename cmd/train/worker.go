package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/internal/alarm"
	"github.com/coda-ml/coda/nn/shard"
)

// workerCmd serves a cluster until it is interrupted.
type workerCmd struct {
	Join      []string `placeholder:"HOST:PORT" help:"Members of the cluster to join, separated by commas; they need not be up yet."`
	Bind      string   `default:"127.0.0.1:7946" placeholder:"ADDR" help:"Address of the gossip, TCP and UDP (default ${default})."`
	Data      string   `placeholder:"ADDR" help:"Address of the data, TCP: host:port or :port, for firewalls (default: a free port of --bind's host)."`
	Advertise string   `placeholder:"ADDR" help:"Address that others use to reach this machine, if another."`
	Key       string   `placeholder:"FILE" help:"Cluster key, required off loopback; '-': the first line of standard input."`
	Name      string   `placeholder:"NAME" help:"Name of the worker (default: the host's name and the process's number)."`
	Pace      float64  `placeholder:"GFLOPS" help:"Behave like a device of that speed."`
	Seats     int      `default:"1" placeholder:"N" help:"Shards of a layer that it can hold at a time, 1 to 64: a run with more shards than workers gives it as many as suit its speed (default ${default})."`
	workerFaults
	observeFlags
	Until  bool `name:"until-stdin-closes" help:"Leave when standard input ends, rather than at an interrupt."`
	Orders bool `help:"The same, and take orders to misbehave from its lines, for tests: cut 3s (the network is silent for that time), slow x=4, drop 0.05, corrupt 0.01."`
}

// Run serves until the context ends or, if asked, standard input does.
func (w *workerCmd) Run(ctx context.Context, t terminal) error {
	var p problems
	p.fromZero("pace", w.Pace)
	p.add(checkSeats(w.Seats))
	p.add(checkSeeds(w.Join))
	p.add(w.observeFlags.check())
	faults, err := newMisbehaviour(w.workerFaults)
	p.add(err)
	if err := p.usage(); err != nil {
		return err
	}
	stdin := bufio.NewReaderSize(os.Stdin, maxKeyLine)
	key, err := w.readKey(stdin)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	if w.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--name: %w", err)
		}
		w.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	log := slog.New(slog.NewTextHandler(t.stderr, nil))
	if w.Until || w.Orders {
		var orders *misbehaviour
		if w.Orders {
			orders = faults
		}
		var stop context.CancelFunc
		ctx, stop = untilClosed(ctx, stdin, orders, log)
		defer stop()
	}
	return w.serve(ctx, t, key, faults, log)
}

// checkSeats checks --seats.
func checkSeats(n int) error {
	const most = 64
	if n < 1 || n > most {
		return fmt.Errorf("--seats %d: want 1 to %d", n, most)
	}
	return nil
}

// maxKeyLine bounds the line of a key on standard input.
const maxKeyLine = 1 << 10

// readKey reads the cluster's key from its file or from standard input.
func (w *workerCmd) readKey(stdin *bufio.Reader) (dist.Key, error) {
	switch w.Key {
	case "":
		return dist.Key{}, nil
	case "-":
		line, err := stdin.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return dist.Key{}, fmt.Errorf("standard input: %w", err)
		}
		return dist.ParseKey(string(line))
	}
	return dist.LoadKey(w.Key)
}

// serve joins the cluster and works until the context ends.
func (w *workerCmd) serve(ctx context.Context, t terminal, key dist.Key, faults *misbehaviour, log *slog.Logger) (err error) {
	monitor, err := openMonitor(ctx, w.observeFlags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, monitor.close()) }()
	wire := dist.Wire{Key: key}
	if w.Orders {
		wire.Cut = &faults.cut
	}
	listener, err := w.listen(ctx, wire)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	members, err := w.join(ctx, listener, wire, log)
	if err != nil {
		return err
	}
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		err = errors.Join(err, members.Leave(leave))
	}()
	clock, err := alarm.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clock.Close()) }()
	worker, err := dist.NewWorker(dist.WorkerConfig{
		Name: w.Name, Addr: members.Self().Addr, Handlers: shard.Factories(), Dial: wire.Dial, Pace: w.Pace, Seats: w.Seats, Log: log,
		Alarm: clock, Slow: faults.slowness, Tamper: faults.tamper,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.stdout, "%s serves at %s, gossip at %s\n", w.Name, members.Self().Addr, members.Self().GossipAddr)
	monitor.watchNode(worker, members, w.Join)
	if err := monitor.announce(t.stdout); err != nil {
		return err
	}
	return serveUntil(ctx, worker, listener, members, log)
}

// join starts the gossip, and warns of addresses that others may not reach.
func (w *workerCmd) join(ctx context.Context, listener *dist.Listener, wire dist.Wire, log *slog.Logger) (*dist.Membership, error) {
	members, err := dist.Join(ctx, dist.MembershipConfig{
		Name: w.Name, Role: dist.RoleWorker, Speed: w.Pace, DataAddr: listener.Addr(),
		Bind: w.Bind, Advertise: w.Advertise, Seeds: w.Join, Key: wire.Key, Cut: wire.Cut, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--bind %s: %w", w.Bind, err)
	}
	if err := errors.Join(listener.Reach(ctx, members.Self().Addr), members.Reach(ctx)); err != nil && ctx.Err() == nil {
		log.Warn("other machines may not reach this worker: see --bind, --data and --advertise", "err", err)
	}
	return members, nil
}

// serveUntil serves until the context ends, tells the others so, and finishes the work
// under way.
func serveUntil(ctx context.Context, worker *dist.Worker, listener *dist.Listener, members *dist.Membership, log *slog.Logger) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beside.Go(func() {
		defer stop()
		select {
		case <-ctx.Done():
			drain(context.WithoutCancel(ctx), members, log)
		case <-serving.Done():
		}
	})
	beside.Go(func() {
		told := map[uint64]bool{} // versions: one node of a cluster stands for all
		eachStranger(serving, members, func(s *dist.VersionError) {
			if !told[s.Theirs] {
				told[s.Theirs] = true
				log.Error("this worker cannot work for nodes of another version: install the same release on both", "err", s)
			}
		})
	})
	return worker.Serve(serving, listener)
}

// listen opens the data plane.
func (w *workerCmd) listen(ctx context.Context, wire dist.Wire) (*dist.Listener, error) {
	data, err := w.dataAddr()
	if err != nil {
		return nil, usageError{err}
	}
	listener, err := wire.Listen(ctx, data)
	switch {
	case err == nil:
		return listener, nil
	case w.Data != "":
		return nil, fmt.Errorf("--data %s: %w", w.Data, err)
	}
	return nil, fmt.Errorf("--bind %s: %w", w.Bind, err)
}

// dataAddr is where the data plane listens.
func (w *workerCmd) dataAddr() (string, error) {
	bind, _, err := net.SplitHostPort(w.Bind)
	if err != nil {
		return "", fmt.Errorf("--bind %s: %w", w.Bind, err)
	}
	if w.Data == "" {
		return net.JoinHostPort(bind, "0"), nil
	}
	host, port, err := net.SplitHostPort(w.Data)
	if err != nil {
		return "", fmt.Errorf("--data %s: %w", w.Data, err)
	}
	return net.JoinHostPort(cmp.Or(host, bind), port), nil
}

// drainTime bounds how long a worker that is told to stop tells the others.
const drainTime = time.Second

// drain tells the cluster that this worker takes no new work, so that nobody tries
// to take it back when it has gone.
func drain(ctx context.Context, members *dist.Membership, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := members.SetDraining(ctx); err != nil {
		log.Warn("the others may not know that this worker leaves", "err", err)
	}
}
