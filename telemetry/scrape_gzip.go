package telemetry

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// A gzipAnswer compresses the metrics, all before it sends any: while a scraper reads, and
// that may be slowly, it holds nothing but what is compressed. An error is left as it is.
type gzipAnswer struct {
	http.ResponseWriter
	metrics *gzipWriter // nil before the first of them
	failed  bool
}

// WriteHeader implements http.ResponseWriter. The handler of the metrics calls it for errors.
func (a *gzipAnswer) WriteHeader(status int) {
	a.failed = status != http.StatusOK
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *gzipAnswer) Write(p []byte) (int, error) {
	if a.failed {
		return a.ResponseWriter.Write(p)
	}
	if a.metrics == nil {
		a.metrics = newGzipWriter()
	}
	return a.metrics.Write(p)
}

// send sends the metrics.
func (a *gzipAnswer) send() error {
	if a.metrics == nil {
		return nil
	}
	body := a.metrics.finish()
	a.metrics = nil
	a.Header().Set("Content-Encoding", "gzip")
	a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, err := a.ResponseWriter.Write(body)
	return err
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
