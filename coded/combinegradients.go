package coded

import "fmt"

// EncodeGradients computes what a worker of a gradient code returns:
//
//	dst = sum_p sum_i row[p*pieces+i] * piece i of parts[p]
//
// with row a row of Code.Rows and parts[p] the gradient of part p, all of one shape;
// a part whose coefficients are all 0 may be empty. Gradients are cut along their
// first dimension, as by Blocks; dst has the rows of one piece.
func EncodeGradients(dst Tensor, row []float64, parts []Tensor) error {
	const what = "encode gradients"
	if len(parts) == 0 || len(row)%len(parts) != 0 {
		return fmt.Errorf("coded: %s: %d coefficients for %d parts", what, len(row), len(parts))
	}
	if err := checkTensor(what+": result", dst, 1); err != nil {
		return err
	}
	pieces := len(row) / len(parts)
	s := newSums()
	defer s.free()
	s.one(dst.Data, row)
	unit, total := size(dst.Shape[1:]), -1
	for p, part := range parts {
		of := row[p*pieces : (p+1)*pieces]
		if len(part.Data) == 0 && norm(of) == 0 {
			for range of {
				s.xs.add(nil, 0)
			}
			continue
		}
		if !fits(part, dst.Shape, 0) || total >= 0 && part.Shape[0] != total || Blocks(part.Shape[0], pieces).Size != dst.Shape[0] {
			rows, or := total, ""
			if total < 0 {
				rows, or = dst.Shape[0]*pieces, "fewer rows of which a piece is as large as the result"
			}
			return shapeError(fmt.Sprintf("%s: part %d", what, p), part, withSize(dst.Shape, 0, rows), or)
		}
		total = part.Shape[0]
		cut := Blocks(total, pieces)
		for i := range of {
			lo, hi := cut.Bounds(i)
			s.xs.add(part.Data[lo*unit:], (hi-lo)*unit)
		}
	}
	s.compute(nil, 1, len(dst.Data), len(dst.Data))
	return nil
}

// DecodeGradients computes the sum of all parts' gradients from what workers
// returned: piece i of dst is sum_t d[i][t] * results[t], with d from Weights.D and
// the results in the order of Weights.Have. dst has the shape of a gradient.
func DecodeGradients(dst Tensor, d [][]float64, results []Tensor) error {
	if err := checkTensor("decode gradients: the sum", dst, 1); err != nil {
		return err
	}
	p := Blocks(dst.Shape[0], len(d))
	if len(d) > 0 && len(results) > 0 && (len(results[0].Shape) == 0 || results[0].Shape[0] != p.Size) {
		return shapeError("decode gradients: result 0", results[0], withSize(dst.Shape, 0, p.Size), "")
	}
	return DecodeRows(dst, d, results, p, 0)
}
