package session

import "sync"

// largeFrame is the size in bytes from which on the buffer of an answer is used again: a
// new one for each would keep the garbage collector running.
const largeFrame = 16 << 10

// frames are the buffers of large answers.
type frames struct{ idle sync.Pool } // of *[]byte

// get returns an empty buffer for a frame that will probably have n bytes, 0 if that is
// unknown.
func (f *frames) get(n int) []byte {
	switch {
	case n == 0:
		return make([]byte, 0, 512)
	case n < largeFrame:
		return make([]byte, 0, n+n/8)
	}
	if buf, ok := f.idle.Get().(*[]byte); ok {
		return (*buf)[:0]
	}
	return make([]byte, 0, n+n/8)
}

// put takes back the buffer of a frame that nobody looks at any more.
func (f *frames) put(frame []byte) {
	if cap(frame) >= largeFrame {
		large := frame // or every frame would need memory for its address
		f.idle.Put(&large)
	}
}
