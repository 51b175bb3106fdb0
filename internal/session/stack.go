package session

// stackBytes is how much stack the goroutine of a request has at least: enough for a
// plain handler and the encoding of its result.
const stackBytes = 8 << 10

// growStack makes the stack of this goroutine large at once, while it holds next to
// nothing. A new goroutine begins with a small one, and would grow it three times on its
// way into the handler; each time all frames are copied and their pointers mended, which
// has cost a sixth of the CPU of a small call.
//
// i is no constant, or the compiler would do without the frame.
//
//go:noinline
func growStack(i int) byte {
	var frame [stackBytes]byte
	return frame[i]
}
