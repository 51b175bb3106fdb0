package logline

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A span keeps up to 128 cut log messages. Each of them must not keep the whole message alive.
func TestCutTextDoesNotKeepTheWholeTextAlive(t *testing.T) {
	const texts, size = 128, 256 << 10
	before := heapBytes()
	cut := make([]string, texts)
	for i := range cut {
		cut[i] = Printable(strings.Repeat("x", size), 256)
	}
	held := heapBytes() - before
	require.Less(t, held, int64(texts*size/16), "bytes that %d cut texts hold", texts)
	runtime.KeepAlive(cut)
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
