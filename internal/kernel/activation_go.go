package kernel

import "math"

// activations holds the functions in Go: what every processor can run, and what
// the assembly is tested against to the bit. forward gets the input and the
// parameter, backward the gradient of the output, z and the parameter.
var activations = [activationCount]struct {
	name       string
	fromOutput bool
	forward    func(x, p float32) float32
	backward   func(dy, z, p float32) float32
}{
	ActReLU: {"relu", true, func(x, _ float32) float32 { return rectified(x) },
		func(dy, y, _ float32) float32 {
			if y <= 0 {
				return 0
			}
			return dy
		}},
	ActLeakyReLU: {"leaky relu", false, leakyReLU, func(dy, x, slope float32) float32 {
		if x > 0 {
			return dy
		}
		return slope * dy
	}},
	ActExp: {"exp", true, func(x, _ float32) float32 { return exp32(x) },
		func(dy, y, _ float32) float32 { return dy * y }},
	ActTanh: {"tanh", true, func(x, _ float32) float32 { return tanh32(x) },
		func(dy, y, _ float32) float32 { return dy * (1 - float32(y*y)) }},
	ActSigmoid: {"sigmoid", true, func(x, _ float32) float32 { return sigmoid32(x) },
		func(dy, y, _ float32) float32 { return dy * float32(y*(1-y)) }},
	ActSiLU: {"silu", false, func(x, _ float32) float32 {
		n, d := sigmoidParts(x)
		return float32(x*n) / d
	}, func(dy, x, _ float32) float32 {
		s := sigmoid32(x)
		return dy * float32(s*(1+float32(x*(1-s))))
	}},
	ActGELU: {"gelu", false, func(x, _ float32) float32 {
		phi, _ := normal32(x)
		return x * phi
	}, func(dy, x, _ float32) float32 {
		phi, e := normal32(x)
		return dy * (phi + float32(x*float32(e*invSqrt2Pi)))
	}},
	ActSoftplus: {"softplus", false, func(x, _ float32) float32 { return softplus32(x) },
		func(dy, x, _ float32) float32 { return dy * sigmoid32(x) }},
	ActELU: {"elu", false, func(x, alpha float32) float32 {
		if x > 0 {
			return x
		}
		return alpha * expm1Negative(x)
	}, func(dy, x, alpha float32) float32 {
		if x > 0 {
			return dy
		}
		return dy * float32(alpha*exp32(x))
	}},
	ActHardswish: {"hardswish", false, hardswish32, func(dy, x, _ float32) float32 {
		switch {
		case x < -3:
			return 0
		case x > 3:
			return dy
		}
		return dy * (float32(x*third) + 0.5)
	}},
}

func activateGo(a Activation, dst, x []float32, p float32) {
	f := activations[a].forward
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = f(v, p)
	}
}

func activateBackGo(a Activation, dx, dy, z []float32, p float32) {
	f := activations[a].backward
	dy, z = dy[:len(dx)], z[:len(dx)]
	for i, v := range z {
		dx[i] = f(dy[i], v, p)
	}
}

const (
	third = float32(1.0 / 3)
	sixth = float32(1.0 / 6)
)

func leakyReLU(x, slope float32) float32 {
	if x > 0 {
		return x
	}
	return slope * x
}

func hardswish32(x, _ float32) float32 {
	v := rectified(x + 3)
	if v > 6 {
		v = 6
	}
	return x * float32(v*sixth)
}

// Constants of exp: x = n*ln2 + r, with ln2 in two parts of which the first has
// few bits, so that n times it is exact (Cody and Waite).
const (
	log2E  = float32(1.44269504088896341)
	ln2Hi  = float32(0.693359375)
	ln2Lo  = float32(-2.12194440e-4)
	magic  = float32(12582912) // 1.5*2^23: adding it rounds to an integer, in the low bits
	expMin = float32(-104)     // exp is 0 below
	expMax = float32(89)       // and infinite above
)

// The minimax polynomial of (exp(r)-1-r)/r^2 for |r| <= ln2/2; its relative
// error in exp is 3.1e-9.
const (
	expC0 = float32(0.49999994)
	expC1 = float32(0.16666521)
	expC2 = float32(0.04166839)
	expC3 = float32(0.008368731)
	expC4 = float32(0.0013814569)
)

// reduce returns r and the integer n, as the low bits of t.
func reduce(x float32) (r, t float32) {
	t = float32(x*log2E) + magic
	n := t - magic
	return x - float32(n*ln2Hi) - float32(n*ln2Lo), t
}

// expm1Reduced returns exp(r)-1 for a reduced argument.
func expm1Reduced(r float32) float32 {
	q := float32(expC4*r) + expC3
	q = float32(q*r) + expC2
	q = float32(q*r) + expC1
	q = float32(q*r) + expC0
	return float32(q*float32(r*r)) + r
}

// timesPower returns p * 2^n, rounded once. n is a sum of two halves, whose
// powers are normal numbers.
func timesPower(p, t float32) float32 {
	n := int32(math.Float32bits(t)) - int32(math.Float32bits(magic))
	half := n >> 1
	p *= math.Float32frombits(uint32(half+127) << 23)
	return p * math.Float32frombits(uint32(n-half+127)<<23)
}

func exp32(x float32) float32 {
	if x > expMax {
		x = expMax
	}
	if x < expMin {
		x = expMin
	}
	return expInRange(x, 0)
}

// expInRange returns exp(x+low) for expMin <= x <= expMax, up to a binade
// beyond, and a low that is small enough not to change n much.
func expInRange(x, low float32) float32 {
	r, t := reduce(x)
	return timesPower(expm1Reduced(r+low)+1, t)
}

// expm1Negative returns exp(x)-1 for x <= 0.
func expm1Negative(x float32) float32 {
	if x < -25 {
		x = -25
	}
	r, t := reduce(x)
	n := int32(math.Float32bits(t)) - int32(math.Float32bits(magic))
	power := math.Float32frombits(uint32(n+127) << 23)
	return float32(power*expm1Reduced(r)) + (power - 1)
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// The minimax polynomial of (tanh(x)-x)/x^3 in x^2 for |x| <= 0.625.
const (
	tanhC0 = float32(-0.33333284)
	tanhC1 = float32(0.13331491)
	tanhC2 = float32(-0.053743497)
	tanhC3 = float32(0.020650579)
	tanhC4 = float32(-0.005717037)
)

// tanh32 uses a polynomial near 0 and 1 - 2/(exp(2|x|)+1) elsewhere.
func tanh32(x float32) float32 {
	z := abs32(x)
	var v float32
	if z < 0.625 {
		u := float32(z * z)
		q := float32(tanhC4*u) + tanhC3
		q = float32(q*u) + tanhC2
		q = float32(q*u) + tanhC1
		q = float32(q*u) + tanhC0
		v = float32(float32(q*u)*z) + z
	} else {
		if z > 10 {
			z = 10
		}
		v = 1 - 2/(expInRange(z+z, 0)+1)
	}
	return math.Float32frombits(math.Float32bits(v) | math.Float32bits(x)&(1<<31))
}

// sigmoidParts returns sigmoid(x) as a quotient that neither overflows nor cancels.
func sigmoidParts(x float32) (num, den float32) {
	e := expNegative(abs32(x))
	if x < 0 {
		return e, 1 + e
	}
	return 1, 1 + e
}

func sigmoid32(x float32) float32 {
	n, d := sigmoidParts(x)
	return n / d
}

// The minimax polynomial of (2 atanh(s) - 2s)/s^3 in s^2 for s <= 1/3.
const (
	logC0 = float32(0.66666675)
	logC1 = float32(0.39998877)
	logC2 = float32(0.28616884)
	logC3 = float32(0.21427657)
	logC4 = float32(0.24300939)
)

// softplus32 is max(x,0) + log(1+z) with z = exp(-|x|).
func softplus32(x float32) float32 { return rectified(x) + log1pUnit(expNegative(abs32(x))) }

// expNegative returns exp(-z) for z >= 0.
func expNegative(z float32) float32 {
	z = -z
	if z < expMin {
		z = expMin
	}
	return expInRange(z, 0)
}

// log1pUnit returns log(1+e) for 0 <= e <= 1, as 2 atanh(e/(2+e)).
func log1pUnit(e float32) float32 {
	s := e / (2 + e)
	u := float32(s * s)
	q := float32(logC4*u) + logC3
	q = float32(q*u) + logC2
	q = float32(q*u) + logC1
	q = float32(q*u) + logC0
	return float32(float32(q*u)*s) + (s + s)
}

// Around 0 the normal distribution is 1/2 + x*C(x^2), with a polynomial of
// degree 5; from 1 on its tail is exp(-z^2/2) * t * P(t) with t = 1/(1+0.3z). P
// has degree 8 and a relative error of 4.8e-9 up to z = 14.6.
const (
	centreC0   = float32(0.3989423)
	centreC1   = float32(-0.06649033)
	centreC2   = float32(0.009973171)
	centreC3   = float32(-0.0011859847)
	centreC4   = float32(0.000113143644)
	centreC5   = float32(-7.5303055e-06)
	tailC0     = float32(0.11967879)
	tailC1     = float32(0.11976578)
	tailC2     = float32(0.10818973)
	tailC3     = float32(0.09055289)
	tailC4     = float32(0.05119523)
	tailC5     = float32(0.027852997)
	tailC6     = float32(0.026329884)
	tailC7     = float32(-0.06888061)
	tailC8     = float32(0.02534549)
	tailStep   = float32(0.3)
	tailEnd    = float32(15) // the tail is 0 in float32
	invSqrt2Pi = float32(0.39894228040143267794)
	highBits   = 0xfffff000 // of a float32: 12 bits of mantissa, whose square is exact
)

// normal32 returns Phi(x), the distribution function of the normal
// distribution, and exp(-x^2/2). The square is split, since its rounding would
// be amplified by the exponential.
func normal32(x float32) (phi, e float32) {
	z := abs32(x)
	if z > tailEnd {
		z = tailEnd
	}
	h := math.Float32frombits(math.Float32bits(z) & highBits)
	e = expInRange(float32(h*h)*-0.5, float32((z-h)*(z+h))*-0.5)
	if z < 1 {
		u := float32(z * z)
		q := float32(centreC5*u) + centreC4
		q = float32(q*u) + centreC3
		q = float32(q*u) + centreC2
		q = float32(q*u) + centreC1
		q = float32(q*u) + centreC0
		return float32(q*x) + 0.5, e
	}
	t := 1 / (float32(z*tailStep) + 1)
	q := float32(tailC8*t) + tailC7
	q = float32(q*t) + tailC6
	q = float32(q*t) + tailC5
	q = float32(q*t) + tailC4
	q = float32(q*t) + tailC3
	q = float32(q*t) + tailC2
	q = float32(q*t) + tailC1
	q = float32(q*t) + tailC0
	tail := float32(float32(q*t) * e)
	if x < 0 {
		return tail, e
	}
	return 1 - tail, e
}
