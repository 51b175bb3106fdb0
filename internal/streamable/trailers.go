package streamable

import (
	"errors"
	"io"
	"net/http"
)

// errTooManyTrailers says that a request has too many lines with those after its body.
var errTooManyTrailers = errors.New("transport: the header and the trailer have too many lines")

// BoundTrailers makes reading the body of a request fail at its end if the header and what follows the
// body have more than so many lines together. The lines are let go of then. It must be called with the
// request that net/http has made: a copy of that does not get the trailer.
func BoundTrailers(r *http.Request, most int) {
	if r.ContentLength < 0 || r.Trailer != nil { // other requests have none
		r.Body = &trailerBound{r.Body, r, most}
	}
}

// A trailerBound is a body whose end may be too long.
type trailerBound struct {
	io.ReadCloser
	r    *http.Request
	most int
}

// Read implements io.Reader.
func (b *trailerBound) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && HeaderLines(b.r.Header)+HeaderLines(b.r.Trailer) > b.most {
		b.r.Trailer = nil
		return n, errTooManyTrailers
	}
	return n, err
}
