package telemetry

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// A gzipWriter compresses into memory, in the format of RFC 1952. Metrics repeat
// themselves so much that the simplest form of DEFLATE (RFC 1951) does: the fixed codes, in
// blocks of which each refers to itself only, and the latest occurrence of four bytes.
//
// It takes 56 KB, which nobody keeps. A writer of compress/gzip takes 700 to 1200 KB, whatever
// its level, and one of klauspost/compress 300 to 1200 KB. Kept in a pool, or made for each
// scrape, and with as much again before the collector runs, that was a tenth of all that the
// demonstration service had in memory. What they write is a quarter shorter.
type gzipWriter struct {
	out   []byte
	block []byte // is not compressed yet
	table [1 << gzipTableBits]uint16
	bits  uint64 // the lowest of them are not in out yet: fewer than eight
	held  int    // how many
	sum   uint32
	size  uint32
}

const (
	gzipTableBits = 12
	gzipBlock     = 32 << 10 // as far as a match may reach back
	gzipMatch     = 258      // is the longest
)

func newGzipWriter() *gzipWriter {
	return &gzipWriter{
		// No name, no time, and nothing is said of the system.
		out:   append(make([]byte, 0, 16<<10), 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255),
		block: make([]byte, 0, gzipBlock),
	}
}

// Write implements io.Writer. It does not fail.
func (z *gzipWriter) Write(p []byte) (int, error) {
	z.sum = crc32.Update(z.sum, crc32.IEEETable, p)
	z.size += uint32(len(p)) // modulo 2^32
	for rest := p; len(rest) > 0; {
		if len(z.block) == gzipBlock {
			z.compress(0)
		}
		n := min(len(rest), gzipBlock-len(z.block))
		z.block, rest = append(z.block, rest[:n]...), rest[n:]
	}
	return len(p), nil
}

// finish returns all that was written, compressed. Nothing may be written any more.
func (z *gzipWriter) finish() []byte {
	z.compress(1)
	z.put(0, 7) // to the end of the byte
	z.out = binary.LittleEndian.AppendUint32(z.out, z.sum)
	return binary.LittleEndian.AppendUint32(z.out, z.size)
}

// compress writes what is in the block as one of DEFLATE. final is 1 for the last.
func (z *gzipWriter) compress(final uint) {
	z.put(1<<1|final, 3)
	clear(z.table[:])
	b := z.block
	for i := 0; i < len(b); {
		length, distance := z.match(b, i)
		if length == 0 {
			z.symbol(uint(b[i]))
			i++
			continue
		}
		z.reference(length, distance)
		for end := i + length; i < end; i++ {
			z.note(b, i)
		}
	}
	z.symbol(256)
	z.block = b[:0]
}

// match finds what is at i in front of it, and notes i. The length is 0 if it is not there.
func (z *gzipWriter) match(b []byte, i int) (length, distance int) {
	at := z.note(b, i)
	if at < 0 {
		return 0, 0
	}
	for limit := min(len(b)-i, gzipMatch); length < limit && b[at+length] == b[i+length]; {
		length++
	}
	if length < 4 { // other bytes with the same hash
		return 0, 0
	}
	return length, i - at
}

// note enters i into the table, and returns what was in its place, or -1.
func (z *gzipWriter) note(b []byte, i int) (before int) {
	if i+4 > len(b) {
		return -1
	}
	entry := &z.table[binary.LittleEndian.Uint32(b[i:])*0x9e3779b1>>(32-gzipTableBits)]
	before = int(*entry) - 1
	*entry = uint16(i + 1)
	return before
}

// reference writes that a piece is there again (RFC 1951, section 3.2.5): its length and
// its distance, each as a symbol and the bits that the symbol leaves open.
func (z *gzipWriter) reference(length, distance int) {
	n, d := uint(length-3), uint(distance-1)
	open := max(bits.Len(n)-3, 0)
	if length == gzipMatch { // has a symbol of its own
		z.symbol(285)
	} else {
		z.symbol(257 + 4*uint(open) + n>>open)
		z.put(n&(1<<open-1), open)
	}
	open = max(bits.Len(d)-2, 0)
	z.code(2*uint(open)+d>>open, 5)
	z.put(d&(1<<open-1), open)
}

// symbol writes a byte, the end of a block, or a length in the fixed code (section 3.2.6).
func (z *gzipWriter) symbol(s uint) {
	switch {
	case s < 144:
		z.code(0x30+s, 8)
	case s < 256:
		z.code(0x190+s-144, 9)
	case s < 280:
		z.code(s-256, 7)
	default:
		z.code(0xc0+s-280, 8)
	}
}

// code writes a code, whose highest bit comes first.
func (z *gzipWriter) code(v uint, n int) { z.put(uint(bits.Reverse32(uint32(v))>>(32-n)), n) }

// put writes the n lowest bits of v, of which the lowest comes first.
func (z *gzipWriter) put(v uint, n int) {
	z.bits |= uint64(v) << z.held
	for z.held += n; z.held >= 8; z.held -= 8 {
		z.out = append(z.out, byte(z.bits))
		z.bits >>= 8
	}
}
