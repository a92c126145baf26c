// Package models holds ready-made models for nn.Network, by name.
//
//	rng := rand.New(rand.NewPCG(1, 0))
//	model, err := models.New("convnet", 10, []int{1, 28, 28}, rng)
//	...
//	net, err := nn.NewNetwork(model, []int{1, 28, 28}, nn.Config{})
//
// A model is a struct with a field for each layer, so its parameters have the
// names and layouts of the PyTorch module of the same structure, and weights
// can be exchanged with it. For a shape of inputs that it cannot take, New says
// what it wants.
//
//	mlp      784-600-300-10 with ReLU, for samples of any shape
//	lenet    LeNet-5 with ReLU and max pooling (LeCun et al. 1998, section II)
//	convnet  three 3x3 convolutions with pooling, a hidden layer of 625
//
//	vgg-small            six convolutions with batch normalisation, for small images
//	vgg11 vgg13 vgg16    Simonyan and Zisserman 2015; vgg11-bn, ... with batch normalisation
//	resnet20 32 56       for small images (He et al. 2016, section 4.2)
//	resnet18 34 50       for photographs (the same, table 1)
//
// The last two families have the names of torchvision's models, so that its
// weights are read by nn.LoadState, for images of any size that they can take.
//
// All randomness comes from the generator: one seed, one model. New may be
// called by several goroutines with generators of their own; a model belongs
// to one goroutine at a time.
package models
