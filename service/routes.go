package service

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A route is a handler of the program's own on one of the listeners.
type route struct {
	pattern string // of http.ServeMux, without a host
	handler http.Handler
}

// split takes the method off a pattern. The method is "" if there is none.
func (r route) split() (method, path string) {
	if before, after, found := strings.Cut(r.pattern, " "); found {
		return before, strings.TrimLeft(after, " \t")
	}
	return "", r.pattern
}

// addTo registers the handler, bounded by wrap. taken reports which paths are not the
// program's to serve. The option is what an error names.
func (r route) addTo(mux *http.ServeMux, option string, taken func(path string) bool, wrap func(http.Handler) http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil { // what http.ServeMux says of a bad pattern, or of two that collide
			err = fmt.Errorf("service: %s(%q): %v", option, r.pattern, v)
		}
	}()
	_, path := r.split()
	switch {
	case r.handler == nil:
		return fmt.Errorf("service: %s(%q): the handler is nil", option, r.pattern)
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("service: %s(%q): want a path, with a method before it if it is for one only, such as \"GET /flags\"; no host", option, r.pattern)
	case taken(path):
		return fmt.Errorf("service: %s(%q): the service has a page of its own at that path", option, r.pattern)
	}
	mux.Handle(r.pattern, wrap(r.handler))
	return nil
}

// below returns a function that reports whether a path is one of roots or lies below one.
func below(roots ...string) func(path string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			root = strings.TrimSuffix(root, "/")
			return path == root || strings.HasPrefix(path, root+"/")
		})
	}
}

// boundBody gives the body of a request to a handler of the program's own a time to arrive
// and a size. The time ends with the body: net/http then waits for a disconnect.
func boundBody(w http.ResponseWriter, r *http.Request, size int, timeout time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // not every writer has one
	r.Body = http.MaxBytesReader(w, r.Body, int64(size))
}

// bounded is for handlers of the program's own on the MCP listener, whose HTTP server has no
// deadlines: the endpoint sets its own. A body has body_timeout to arrive and may have
// max_frame_bytes; each piece of an answer has write_timeout to be read.
func (p *process) bounded(next http.Handler) http.Handler {
	limits, reached := p.srv.Limits(), p.limitReached
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r, limits.MaxFrameBytes, limits.BodyTimeout)
		out := newBoundedWriter(w, limits.WriteTimeout, true, reached)
		next.ServeHTTP(out, r)
		out.finish()
	})
}
