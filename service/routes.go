package service

import (
	"fmt"
	"net/http"
	"strings"
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
