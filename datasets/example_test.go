package datasets_test

import (
	"context"
	"fmt"
	"log"

	"github.com/coda-ml/coda/datasets"
)

func Example() {
	ctx := context.Background()
	train, test, err := datasets.Load(ctx, "mnist", datasets.Options{Offline: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train, train.N, test, test.N, train.Shape)
	loader, err := datasets.NewLoader(train, datasets.LoaderConfig{Batch: 128, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	images := 0
	for batch, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			log.Fatal(err)
		}
		images += batch.Shape[0]
	}
	fmt.Println(loader.Steps(), "steps,", images, "images")
	// Output:
	// mnist/train 60000 mnist/test 10000 [1 28 28]
	// 469 steps, 60000 images
}

// A run that is resumed at step 2 of epoch 7 sees what it would have seen.
func ExampleLoader_Epoch() {
	ctx := context.Background()
	train, _, err := datasets.Load(ctx, "synthetic", datasets.Options{
		Synthetic: datasets.Synthetic{Seed: 1, Train: 10, Test: 10},
	})
	if err != nil {
		log.Fatal(err)
	}
	loader, err := datasets.NewLoader(train, datasets.LoaderConfig{Batch: 4, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, first := range []int{0, 2} {
		for batch, err := range loader.Epoch(ctx, 7, first) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(batch.Step, batch.Shape, batch.Labels)
		}
	}
	// Output:
	// 0 [4 1 28 28] [7 2 4 6]
	// 1 [4 1 28 28] [1 8 3 9]
	// 2 [2 1 28 28] [5 0]
	// 2 [2 1 28 28] [5 0]
}

// Images are varied while batches are made, in the loader's goroutines: every
// epoch anew, and yet the same for the same seed. Loaders for evaluation leave
// Augment out.
func ExampleAugment() {
	ctx := context.Background()
	train, _, err := datasets.Load(ctx, "synthetic", datasets.Options{
		Synthetic: datasets.Synthetic{Seed: 1, Train: 256, Shape: []int{3, 32, 32}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, workers := range []int{1, 4} {
		loader, err := datasets.NewLoader(train, datasets.LoaderConfig{
			Batch: 128, Shuffle: true, Seed: 1, Workers: workers,
			Augment: datasets.Augment{Pad: 4, Flip: true, Cutout: 8},
		})
		if err != nil {
			log.Fatal(err)
		}
		for epoch := range 2 {
			var sum float64
			for batch, err := range loader.Epoch(ctx, epoch, 0) {
				if err != nil {
					log.Fatal(err)
				}
				for _, x := range batch.X {
					sum += float64(x)
				}
			}
			fmt.Printf("workers %d, epoch %d: sum %.0f\n", workers, epoch, sum)
		}
	}
	// Output:
	// workers 1, epoch 0: sum -193017
	// workers 1, epoch 1: sum -186794
	// workers 4, epoch 0: sum -193017
	// workers 4, epoch 1: sum -186794
}

// A set of one's own images.
func ExampleNewSet() {
	set, err := datasets.NewSet(datasets.Contents{
		Name: "bars", Split: "train",
		Classes: 2, ClassNames: []string{"lying", "standing"},
		Shape:  []int{1, 2, 2},
		Pixels: []byte{255, 255, 0, 0, 255, 0, 255, 0, 0, 255, 0, 255},
		Labels: []int{0, 1, 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	x, labels := make([]float32, 2*set.ImageSize()), make([]int32, 2)
	if err := set.BatchTo(x, labels, []int{2, 0}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x, set.ClassNames[labels[0]], set.ClassNames[labels[1]])
	// Output: [0 1 0 1 1 1 0 0] standing lying
}
