package telemetry

import (
	"bufio"
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// A compressed is a text that is compressed into memory, in pieces that know nothing of each
// other: a compressor that remembers what it has seen takes 700 KB or more, which with as much
// again before the collector runs was a tenth of all that the demonstration service had in memory.
type compressed struct {
	in  *bufio.Writer
	zip *gzip.Writer
	out bytes.Buffer
}

// compressedPiece is the size of a piece in bytes: the most that the compressor takes at once.
const compressedPiece = 32<<10 - 1

func newCompressed() *compressed {
	c := new(compressed)
	c.zip, _ = gzip.NewWriterLevel(&c.out, gzip.StatelessCompression) // fails for other levels only
	c.in = bufio.NewWriterSize(c.zip, compressedPiece)
	return c
}

// finish returns the compressed text.
func (c *compressed) finish() ([]byte, error) {
	err := errors.Join(c.in.Flush(), c.zip.Close())
	return c.out.Bytes(), err
}

// prefersGzip reports whether a scraper wants its answer compressed rather than as it is
// (RFC 9110, section 12.5.3).
func prefersGzip(h http.Header) bool {
	var gzip, identity float64
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, params, err := mime.ParseMediaType(coding)
			if err != nil {
				continue
			}
			weight := 1.0
			if q, ok := params["q"]; ok {
				weight, _ = strconv.ParseFloat(q, 64) // what is no number is no preference
			}
			switch name {
			case "gzip":
				gzip = weight
			case "identity", "*": // any: then it may be left as it is
				identity = max(identity, weight)
			}
		}
	}
	return gzip > identity
}
