package datasets

import "strings"

// CIFAR-10 and CIFAR-100: Krizhevsky, "Learning Multiple Layers of Features
// from Tiny Images", 2009. The sums are those of the archives of the binary
// version at www.cs.toronto.edu/~kriz/cifar.html.
var (
	cifar10 = &cifar{
		name: "cifar10",
		files: []cifarFile{
			{"data_batch_1.bin", "train", 10000}, {"data_batch_2.bin", "train", 10000}, {"data_batch_3.bin", "train", 10000},
			{"data_batch_4.bin", "train", 10000}, {"data_batch_5.bin", "train", 10000}, {"test_batch.bin", "test", 10000},
		},
		folder: "cifar-10-batches-bin",
		archive: asset{"cifar-10-binary.tar.gz", 170052171,
			"c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
		mirrors: []string{
			"https://www.cs.toronto.edu/~kriz/",
			"https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
		},
		classNames: strings.Fields("airplane automobile bird cat deer dog frog horse ship truck"),
		shape:      []int{3, 32, 32},
		mean:       []float32{0.4914, 0.4822, 0.4465},
		std:        []float32{0.2470, 0.2435, 0.2616},
	}
	cifar100 = &cifar{
		name:   "cifar100",
		files:  []cifarFile{{"train.bin", "train", 50000}, {"test.bin", "test", 10000}},
		folder: "cifar-100-binary",
		archive: asset{"cifar-100-binary.tar.gz", 168513733,
			"58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
		mirrors: []string{"https://www.cs.toronto.edu/~kriz/"},
		classNames: strings.Fields(`
			apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
			bowl boy bridge bus butterfly camel can castle caterpillar cattle
			chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
			dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
			lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
			mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
			plain plate poppy porcupine possum rabbit raccoon ray road rocket
			rose sea seal shark shrew skunk skyscraper snail snake spider
			squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
			train trout tulip turtle wardrobe whale willow_tree wolf woman worm`),
		coarse: 20,
		shape:  []int{3, 32, 32},
		mean:   []float32{0.5071, 0.4867, 0.4408},
		std:    []float32{0.2675, 0.2565, 0.2761},
	}
)
