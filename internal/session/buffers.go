package session

import (
	"bytes"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/stream"
)

// smallFrame is the size in bytes of a buffer for an answer of unknown size.
const smallFrame = 512

// frames are the buffers of answers, by their size: up to FreeAnswer, up to LargeFrame, and more.
// They are used again: a new one for each request would keep the garbage collector running. The
// plain version is make([]byte, 0, n) for each answer.
type frames [3]sync.Pool // of *[]byte

// pool returns the pool of buffers of a size.
func (f *frames) pool(size int) *sync.Pool {
	switch {
	case size >= stream.LargeFrame:
		return &f[2]
	case size > stream.FreeAnswer:
		return &f[1]
	}
	return &f[0]
}

// get returns an empty buffer for a frame that will probably have n bytes, 0 if that is
// unknown.
func (f *frames) get(n int) *[]byte {
	size := max(n+n/8, smallFrame)
	if buf, ok := f.pool(size).Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, size)
	return &buf
}

// put takes back a buffer with the frame in it. The frame must not be used any more.
func (f *frames) put(buf *[]byte, frame []byte) {
	*buf = frame[:0]
	f.pool(cap(frame)).Put(buf)
}

// fit returns the frame of a result, which may have to wait for its reader, in a buffer that is not
// much larger: a buffer that has had a large answer would count as a small one. An answer of a batch
// never comes back to the pool, because it is copied into the array.
func (r *Request) fit(frame []byte) []byte {
	if r.batch == nil && cap(frame)-len(frame) <= max(len(frame), stream.FreeAnswer) {
		return frame
	}
	fitting := bytes.Clone(frame)
	r.recycle(frame)
	return fitting
}

// recycle gives the buffer of a result back, which nobody uses any more.
func (r *Request) recycle(frame []byte) {
	if r.buffer != nil {
		r.core.frames.put(r.buffer, frame)
		r.buffer = nil
	}
}
