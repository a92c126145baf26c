package sim_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/coda-ml/coda/dist/sim"
)

// Eight workers, any six of which hold everything, under the model of most papers.
func Example() {
	model, err := sim.ParseModel("shifted-exp=1,1", 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range []sim.Strategy{
		sim.Uncoded{}, sim.Replicated{Copies: 2}, sim.MDS{K: 6}, sim.Adaptive{K: 6, Chunks: 24},
	} {
		r, err := sim.Run(context.Background(), sim.Config{
			Job: sim.KOfN(8, 6), Strategy: s, Model: model, Seed: 1, Rounds: 4000,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-10s %.1f times the ideal\n", s.Name(), r.Ratio)
	}
	// Output:
	// uncoded    2.0 times the ideal
	// replicated 2.3 times the ideal
	// mds        1.6 times the ideal
	// adaptive   1.1 times the ideal
}

// What is recorded can be replayed with any strategy.
func ExampleRecord() {
	model, err := sim.ParseModel("slow:2@x=4", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer
	if err := sim.Record(&file, model, 1, 2, 2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(file.String())
	trace, err := sim.ReadTrace(&file, "example.csv", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := sim.Run(context.Background(), sim.Config{Job: sim.KOfN(2, 1), Strategy: sim.MDS{K: 1}, Model: trace, Rounds: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Mean, r.Wasted)
	// Output:
	// # coda-trace 1
	// run,round,worker,from_s,load,compute_s,comm_s
	// 1,1,1,0,1,1,0
	// 1,1,2,0,1,4,0
	// 1,2,1,0,1,1,0
	// 1,2,2,0,1,4,0
	// 1 0.19999999999999996
}
