package service

import (
	"fmt"
	"net/http"
	"strings"
)

// A route is a handler of the program on one of the listeners.
type route struct {
	pattern string // of http.ServeMux, without a host
	handler http.Handler
}

// split splits the pattern. The method is "" if there is none.
func (r route) split() (method, path string) {
	if before, after, found := strings.Cut(r.pattern, " "); found {
		return before, strings.TrimLeft(after, " \t")
	}
	return "", r.pattern
}

// addTo registers the handler, wrapped by wrap. taken reports whether a path belongs to the service.
// Errors name the option.
func (r route) addTo(mux *http.ServeMux, option string, taken func(path string) bool, wrap func(http.Handler) http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil { // of http.ServeMux, for an invalid pattern or a conflict
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
