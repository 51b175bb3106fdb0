package session

import (
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/stream"
)

// smallFrame is the size in bytes of a buffer for an answer of unknown size.
const smallFrame = 512

// frames are the buffers of answers. They are used again: a new one for each request would keep
// the garbage collector running. The plain version is make([]byte, 0, n) for each answer.
type frames struct{ small, large sync.Pool } // of *[]byte

// get returns an empty buffer for a frame that will probably have n bytes, 0 if that is
// unknown.
func (f *frames) get(n int) *[]byte {
	size := max(n+n/8, smallFrame)
	pool := &f.small
	if size >= stream.LargeFrame { // the pool that put chooses
		pool = &f.large
	}
	if buf, ok := pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, size)
	return &buf
}

// put takes back a buffer with the frame in it. The frame must not be used any more.
func (f *frames) put(buf *[]byte, frame []byte) {
	*buf = frame[:0]
	if cap(frame) >= stream.LargeFrame {
		f.large.Put(buf)
	} else {
		f.small.Put(buf)
	}
}
