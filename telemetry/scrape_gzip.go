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

// A compressed compresses a text into memory, in independent pieces. A compressor with a window
// takes 700 KB or more. With garbage that was a tenth of the memory of the demonstration service.
type compressed struct {
	in  *bufio.Writer
	zip *gzip.Writer
	out bytes.Buffer
}

// compressedPiece is the size of a piece in bytes, the maximum of the compressor.
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

// prefersGzip reports whether a scraper prefers gzip to no compression (RFC 9110, section
// 12.5.3).
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
				weight, _ = strconv.ParseFloat(q, 64) // an invalid weight counts as 0
			}
			switch name {
			case "gzip":
				gzip = weight
			case "identity", "*": // * includes identity
				identity = max(identity, weight)
			}
		}
	}
	return gzip > identity
}
