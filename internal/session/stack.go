package session

// stackBytes is how much stack the goroutine of a request has at least: enough for a
// plain handler and the encoding of its result.
const stackBytes = 8 << 10

// growStack makes the stack of this goroutine large at once, while it is nearly empty. A new
// goroutine begins with a small stack, and would grow it three times on its way into the
// handler. Each time all frames are copied. The plain version is to leave this call out, with which
// a small call takes 1.4 times the CPU time (BenchmarkCost of package server).
//
// i must not be a constant, or the compiler would leave out the frame.
//
//go:noinline
func growStack(i int) byte {
	var frame [stackBytes]byte
	return frame[i]
}
