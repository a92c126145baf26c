package coded

// bilinearFamilies are the codes of a product of two coded operands, and those
// that are made like them.
var bilinearFamilies = []Family{
	polynomial,
	matdot,
	systematicMatdot,
	trigonometricMatdot,
	polydot,
	entangled,
	summedEntangled,
	orthoPolynomial,
	orthoMatdot,
	khatriRao,
	systematicKhatriRao,
	rotation,
	circulant,
	product,
	bivariate,
}
