package main

import (
	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// placementCodes lists the codes for the shards of a layer: one coded block a
// slot, and no number but k to choose.
func placementCodes() []string {
	return codesThat(func(f coded.Family, code *coded.Code) bool {
		_, err := code.Generator()
		return f.Kind == coded.Linear && f.Uses&^coded.UsesSeed == coded.UsesK && code.Threshold() > 0 && err == nil
	})
}

// gradientCodes lists the codes that the gradient of a layer whose batch is coded may
// have: exact ones for sums of gradients with no number but the load to choose.
func gradientCodes() []string {
	return codesThat(func(f coded.Family, code *coded.Code) bool {
		return f.Uses == coded.UsesK|coded.UsesLoad && shard.CodesParts(code)
	})
}

// shippedCodes lists the codes for the products of a layer of which both factors are
// coded.
func shippedCodes() []string {
	return codesThat(func(f coded.Family, code *coded.Code) bool {
		_, ok := code.LayerCut()
		return f.Kind == coded.Bilinear && ok
	})
}

// codesThat lists the families that fit, by one code of each.
func codesThat(fit func(coded.Family, *coded.Code) bool) []string {
	var names []string
	for _, f := range coded.Families() {
		if code, err := coded.New(f.Examples[0]); err == nil && fit(f, code) {
			names = append(names, f.Name)
		}
	}
	return names
}
