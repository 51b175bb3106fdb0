package wire

import (
	"encoding/binary"
	"math/bits"
)

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// longRun is the number of bytes after which a run of plain text counts as long. Most texts end before that, and are
// read without the loop for long ones.
const longRun = 64

// plain returns where a run of plain text ends, looking at eight bytes at a time, and at 32 in a long run. The plain
// version is the last loop alone, with which decoding a call takes a tenth more time (BenchmarkDecode/modern264), and
// a long text four times.
func plain(b []byte, i int, notASCII uint64) int {
	for long := i + longRun; len(b)-i >= 8; i += 8 {
		if i == long {
			i = plainBlocks(b, i, notASCII)
			if len(b)-i < 8 {
				break
			}
		}
		if w := specials(binary.LittleEndian.Uint64(b[i:]), notASCII); w != 0 {
			return i + bits.TrailingZeros64(w)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; escaped(c) || c&byte(notASCII) != 0 {
			break
		}
	}
	return i
}

// plainBlocks skips blocks of 32 bytes that are plain text. Without it a long text takes one and a half times the
// time (BenchmarkDecode/text1MB).
func plainBlocks(b []byte, i int, notASCII uint64) int {
	for ; len(b)-i >= 32; i += 32 {
		p := (*[32]byte)(b[i:])
		v, w := binary.LittleEndian.Uint64(p[:]), binary.LittleEndian.Uint64(p[8:])
		x, y := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
		if (escapes(v)|escapes(w)|escapes(x)|escapes(y))&highBits|(v|w|x|y)&notASCII != 0 {
			break
		}
	}
	return i
}

// specials returns the highest bit in each byte of w that ends a run of plain text: a quote,
// a backslash, a control character, or a byte with a bit of notASCII. Bytes above such a
// byte may be marked wrongly; the lowest mark is always right.
func specials(w, notASCII uint64) uint64 { return escapes(w)&highBits | w&notASCII }

// escapes is specials for the bytes that have an escape. The lower bits mean nothing.
func escapes(w uint64) uint64 {
	// A byte borrows, and so gets its highest bit, only if it is less than what is subtracted.
	// The first exclusive-or swaps '"' and ' ', so that one test finds quotes and controls.
	quote := (w ^ ('"'^' ')*eachByte) - (' '+1)*eachByte
	backslash := (w ^ '\\'*eachByte) - eachByte
	return (quote | backslash) &^ w
}
