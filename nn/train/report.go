package train

import (
	"context"
	"fmt"
	"math"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
)

// Report says how a network classifies a data set.
type Report struct {
	Images    int
	Loss      float64 // mean cross entropy
	Confusion [][]int // images by class and by the class that the network takes them for
}

// ClassReport is the part of a Report that concerns one class. A fraction of
// nothing, such as the recall of a class without images, is 0.
type ClassReport struct {
	Images    int     // of the class
	Right     int     // of these, those that are classified correctly
	Precision float64 // part of what is taken for the class that is of the class
	Recall    float64 // part of the class that is taken for it
	F1        float64 // harmonic mean of precision and recall
}

// Accuracy is the part of the images that are classified correctly.
func (r *Report) Accuracy() float64 {
	right := 0
	for c := range r.Confusion {
		right += r.Confusion[c][c]
	}
	return fraction(right, r.Images)
}

// Class reports on one class.
func (r *Report) Class(c int) ClassReport {
	taken := 0
	report := ClassReport{Right: r.Confusion[c][c]}
	for other := range r.Confusion {
		report.Images += r.Confusion[c][other]
		taken += r.Confusion[other][c]
	}
	report.Precision, report.Recall = fraction(report.Right, taken), fraction(report.Right, report.Images)
	report.F1 = fraction(2*report.Right, taken+report.Images) // 2PR/(P+R)
	return report
}

func fraction(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Classify reports on a network's classes for the images of a data set, taken
// in batches of the given size. The class of an image is that of the largest
// output, the first of equals. An output that is not finite is an error.
func Classify(ctx context.Context, network *nn.Network, set *datasets.Set, batch int) (*Report, error) {
	if network.Outputs() != set.Classes {
		return nil, fmt.Errorf("train: classify %v: the network has %d outputs for %d classes", set, network.Outputs(), set.Classes)
	}
	loader, err := datasets.NewLoader(set, datasets.LoaderConfig{Batch: min(batch, set.N)})
	if err != nil {
		return nil, fmt.Errorf("train: classify: %w", err)
	}
	r := &Report{Confusion: make([][]int, set.Classes)}
	for c := range r.Confusion {
		r.Confusion[c] = make([]int, set.Classes)
	}
	for b, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			return nil, fmt.Errorf("train: classify: %w", err)
		}
		outputs, err := network.Predict(ctx, b.X)
		if err != nil {
			return nil, fmt.Errorf("train: classify: %w", err)
		}
		if err := r.add(outputs, b.Labels); err != nil {
			return nil, fmt.Errorf("train: classify %v: %w%s", set, err, firstNonFinite(network))
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	r.Loss /= float64(r.Images)
	return r, nil
}

// add takes a batch into the report; the loss is a sum by then.
func (r *Report) add(outputs []float32, labels []int32) error {
	classes := len(r.Confusion)
	for i, label := range labels {
		row := outputs[i*classes : (i+1)*classes]
		best, sum := 0, 0.0
		for c, v := range row {
			if !finite(float64(v)) {
				return fmt.Errorf("image %d: output %d is %v", r.Images, c, v)
			}
			if v > row[best] {
				best = c
			}
		}
		for _, v := range row {
			sum += math.Exp(float64(v) - float64(row[best]))
		}
		r.Loss += math.Log(sum) - (float64(row[label]) - float64(row[best]))
		r.Confusion[label][best]++
		r.Images++
	}
	return nil
}
