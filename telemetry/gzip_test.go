package telemetry

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unzip returns what is in exactly one member of gzip, whose sum and size are right.
func unzip(t require.TestingT, compressed []byte) string {
	rest := bytes.NewReader(compressed)
	in, err := gzip.NewReader(rest)
	require.NoError(t, err)
	in.Multistream(false)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Zero(t, rest.Len(), "bytes after the end")
	return string(text)
}

// zip compresses a text that is written in pieces of some size.
func zip(text string, piece int) []byte {
	z := newGzipWriter()
	for rest := []byte(text); len(rest) > 0; {
		n := min(piece, len(rest))
		_, _ = z.Write(rest[:n]) // does not fail
		rest = rest[n:]
	}
	return z.finish()
}

// TestGzipWriter: what others read is what was written.
func TestGzipWriter(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	noise := make([]byte, 3*gzipBlock+1)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise) // does not fail
	far := func(between int) string { return "a word" + strings.Repeat("-", between) + "a word" }
	tests := []struct {
		name, text string
		most       int // bytes
	}{
		{"nothing", "", 20},
		{"a byte", "a", 21},
		{"three bytes", "aaa", 23},
		{"four bytes twice", "abcdabcd", 27},
		{"all bytes", string(all), 300},
		{"all bytes, twice", string(all) + string(all), 300},
		{"noise", string(noise), len(noise) * 9 / 8},
		{"as far back as can be", far(gzipBlock - 12), 300},
		{"as far back as cannot be", far(gzipBlock - 6), 300},
		{"a block", strings.Repeat("a", gzipBlock), 300},
		{"a byte less", strings.Repeat("a", gzipBlock-1), 300},
		{"a byte more", strings.Repeat("a", gzipBlock+1), 300},
		{"three blocks", strings.Repeat("0123456789abcdef", 3*gzipBlock/16), 900},
		{"metrics", strings.Repeat("vitrine_requests_admitted_total{method=\"tools/call\"} 1\n", 1000), 900},
	}
	for length := 3; length <= 3*gzipMatch; length++ { // each length of a match, and what is left of it
		text := strings.Repeat("x", length)
		require.Equal(t, text, unzip(t, zip(text, length)), length)
	}
	for between := 1; between < gzipBlock-12; between += between/9 + 1 { // distances with each symbol
		text := far(between)
		require.Equal(t, text, unzip(t, zip(text, len(text))), between)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			whole := zip(tt.text, len(tt.text)+1)
			require.Equal(t, tt.text, unzip(t, whole))
			require.LessOrEqual(t, len(whole), tt.most)
			for _, piece := range []int{1, 7, 4096, gzipBlock} {
				require.Equal(t, whole, zip(tt.text, piece), "in pieces of %d bytes", piece)
			}
		})
	}
}

func FuzzGzipWriter(f *testing.F) {
	f.Add([]byte("four, four, and four"), uint16(1))
	f.Add([]byte("\xff\x00\x8f\x90"), uint16(3))
	f.Fuzz(func(t *testing.T, seed []byte, times uint16) {
		text := strings.Repeat(string(seed), min(int(times), 1<<17/(len(seed)+1)))
		require.Equal(t, text, unzip(t, zip(text, len(text)/3+1)))
	})
}
