package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/template"
)

// maxURI is the longest URI of a resource, in bytes.
const maxURI = template.MaxLength

// ErrResourceNotFound is what a handler returns, bare or wrapped, for a URI behind which
// there is nothing. The client gets the error that its revision has for it, with the URI.
var ErrResourceNotFound error = mcp.NewError(mcp.CodeResourceNotFound, "the resource does not exist")

// hasResources reports whether a resource or a template was ever registered.
func (s *Server) hasResources() bool { return s.resources.used() || s.templates.used() }

// RemoveResources removes resources by URI; unknown ones are ignored. Reads that run
// already go on.
func (s *Server) RemoveResources(uris ...string) { s.resources.remove(uris...) }

// RemoveResourceTemplates removes templates by their URI template; unknown ones are
// ignored. Reads that run already go on.
func (s *Server) RemoveResourceTemplates(uriTemplates ...string) { s.templates.remove(uriTemplates...) }

// readable finds what serves a URI: the resource itself, or else the first template of
// which it is one. It has no metric label of its own: a label is for tools and prompts,
// and the URI is on the span.
func (s *Server) readable(uri string) *target {
	if to := s.resources.target(uri); to != nil {
		return to
	}
	for _, e := range s.templates.all() {
		if e.target.matches(uri) {
			return e.target
		}
	}
	return nil
}

// shownTo finds what serves a URI for a caller. A hidden resource hides no template
// behind it: it is as if it did not exist.
func (s *Server) shownTo(ctx context.Context, req *middleware.Request, uri string) *target {
	if to := s.resources.target(uri); to != nil && s.routes.view.shows(ctx, req, to.item, uri) {
		return to
	}
	for _, e := range s.templates.all() {
		if e.target.matches(uri) && s.routes.view.shows(ctx, req, e.target.item, uri) {
			return e.target
		}
	}
	return nil
}

// read serves the URIs for which there is nothing, or nothing that the caller may see at
// first sight.
func (s *Server) read(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	in := era.CoreOf(req)
	switch uri := in.Name; {
	case !in.HasName:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.uri is missing")
	case len(uri) > maxURI:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.uri is longer than %d bytes", maxURI)
	default:
		if to := s.shownTo(ctx, req, uri); to != nil {
			return to.handler(ctx, req)
		}
		return nil, noResource(uri)
	}
}

// noResource is the error for a URI behind which there is nothing.
func noResource(uri string) *mcp.Error {
	return mcp.NewError(mcp.CodeResourceNotFound, "there is no resource %q", cut(uri, 128)).
		WithData(mcp.ResourceErrorData{URI: uri})
}
