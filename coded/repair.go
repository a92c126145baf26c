package coded

import (
	"fmt"
	"slices"
)

// MaxRepairAmplification is the amplification above which the caller of Repair
// should not use its weights, but decode the blocks and encode the lost slot
// (better, all slots) anew: repairs compound, and a slot repaired from slots that
// were repaired before multiplies their rounding.
const MaxRepairAmplification = 4

// Repair gives the lost slot of a one-sided code as a combination of fresh ones:
// F_lost = sum_i weights[i] F_donors[i]. The weights are those of least norm over
// all the fresh slots, G_lost pinv(G_fresh); amplification is their norm, the
// factor by which independent rounding of the donors comes back. Slots of weight
// zero are not among the donors.
//
// Repairs are made over and over, each from the last one's result: with weights
// of least norm, slots with values of size 1 were within 1e-5 of the code after
// 200 float32 repairs in a row, while with k donors at random the error grows
// exponentially.
//
// The error is an *InsufficientError when the fresh slots do not determine the
// lost one.
func (c *Code) Repair(lost int, fresh []int) (donors []int, weights []float64, amplification float64, err error) {
	if !c.linear {
		return nil, nil, 0, fmt.Errorf("coded: %v is not one-sided: its slots cannot be repaired", c)
	}
	if err := c.checkSet(append([]int{lost}, fresh...)); err != nil {
		return nil, nil, 0, fmt.Errorf("coded: repair of slot %d: %w", lost, err)
	}
	sorted := slices.Clone(fresh)
	slices.Sort(sorted)
	w, err := c.leastNorm(sorted, [][]float64{c.rows[lost]})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("coded: repair of slot %d: %w", lost, err)
	}
	if len(w.undecoded()) > 0 {
		return nil, nil, 0, fmt.Errorf("coded: repair of slot %d: %w", lost, &InsufficientError{
			Code: c.String(), Have: w.Have, Threshold: c.def.Threshold, Missing: []int{0}, Outputs: 1, Residual: w.Residual,
		})
	}
	for i, v := range w.D[0] {
		if v != 0 {
			donors, weights = append(donors, sorted[i]), append(weights, v)
		}
	}
	return donors, weights, norm(weights), nil
}
