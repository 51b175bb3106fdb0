package transport

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// An input whose blocked read cannot be woken, such as a terminal, loses nothing to a connection that was closed while it
// read: the next connection gets what that read returns.
func TestNextStdioReadsWhatAClosedOneWaitedFor(t *testing.T) {
	in, client, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer client.Close()
	open := func() Conn {
		out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		require.NoError(t, err)
		return Lines(&stdio{out: out, reads: detachReads(in), writes: detachWrites(out), restore: func() {}})
	}
	first := open()
	_, err = client.WriteString("{\"frame\":1}\n")
	require.NoError(t, err)
	frame, err := first.ReadFrame(100)
	require.NoError(t, err)
	require.JSONEq(t, `{"frame":1}`, string(frame))
	waiting := make(chan error)
	go func() {
		_, err := first.ReadFrame(100)
		waiting <- err
	}()
	for !detachReads(in).of.isReading() {
		runtime.Gosched()
	}
	require.NoError(t, first.Close())
	require.ErrorIs(t, <-waiting, os.ErrClosed)

	second := open()
	_, err = client.WriteString("{\"frame\":2}\n{\"frame\":3}\n")
	require.NoError(t, err)
	require.NoError(t, client.Close())
	for _, want := range []string{`{"frame":2}`, `{"frame":3}`} {
		frame, err = second.ReadFrame(100)
		require.NoError(t, err)
		require.JSONEq(t, want, string(frame))
	}
	require.NoError(t, second.Close())
}

func (r *detachedReader) isReading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reading != nil
}
