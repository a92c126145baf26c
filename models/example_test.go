package models_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

func Example() {
	model, err := models.New("convnet", 10, []int{1, 28, 28}, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		log.Fatal(err)
	}
	params, err := nn.Params(model)
	if err != nil {
		log.Fatal(err)
	}
	size := 0
	for _, p := range params {
		size += p.Size()
	}
	fmt.Println(params[0].Name, params[0].Value.Shape)
	fmt.Println(size, "numbers in", len(params), "parameters")
	// Output:
	// conv1.weight [32 1 3 3]
	// 819557 numbers in 10 parameters
}
