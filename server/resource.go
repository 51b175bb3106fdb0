package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Resource describes a resource to [AddResource].
type Resource struct {
	// URI is absolute and has at most 4096 bytes.
	URI string
	// Name is for people and need not be unique.
	Name        string
	Title       string
	Description string
	MIMEType    string
	Size        int64 // bytes, 0 if that is not known
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// TTL says how long a modern client may keep what it has read: 0 is stale at once.
	// Scope says who may share it; the default is [mcp.CachePrivate] for a server that
	// tells its callers apart ([WithPolicy], [WithAuthenticator]), or if the resource needs
	// scopes, else [mcp.CachePublic]. The hint of a result comes first.
	TTL   time.Duration
	Scope mcp.CacheScope
	// Middleware wraps this resource's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline, Class and Scopes are explained at [Tool].
	Deadline time.Duration
	Class    *Class
	Scopes   []string
	// ScopesFor returns what a URI needs in addition to Scopes. May be nil. It must be safe for concurrent
	// use and quick.
	ScopesFor func(uri string) []string
}

// A ResourceHandler reads one resource. A string is its text and a []byte its bytes. Contents
// without a URI get the URI of the request, and those without a MIME type the registered one. A
// result without contents is a fault of the server.
//
// A handler returns [ErrResourceNotFound] if the resource does not exist any more. All other
// errors are treated as those of a [PromptHandler].
type ResourceHandler[Out Readable] func(ctx context.Context, call *Call, uri string) (Out, error)

// AddResource registers a resource, or replaces the one that has its URI, as [AddTool]
// does with a tool. It panics on a mistake in the definition; see [TryAddResource].
//
// If the definition has changed, the subscribers of the resource get an update, as by
// [Server.ResourceUpdated]. The server does not know what handlers read: a program whose data has
// changed must call ResourceUpdated.
func AddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) {
	must(TryAddResource(s, r, h))
}

// TryAddResource is [AddResource] that returns the error: for an invalid URI, an empty name, a
// negative TTL, an unknown scope, and a handler or a middleware that is nil. After an error
// nothing has changed.
func TryAddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) error {
	return enterResource(s, r, h, nil)
}

// enterResource registers a resource. content is the digest of a static resource, or nil.
func enterResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out], content []byte) error {
	if err := checkURI(r.URI); err != nil {
		return err
	}
	how := serving{middlewares: r.Middleware, deadline: r.Deadline, class: r.Class, need: need{r.Scopes, r.ScopesFor}}
	if err := how.checkItem(auth.KindResource, r.URI, h != nil); err != nil {
		return err
	}
	hint, err := readHint(r.TTL, r.Scope, how.need)
	if r.Name == "" {
		err = errNoName
	}
	if err != nil {
		return fmt.Errorf("server: resource %q: %w", r.URI, err)
	}
	def := &mcp.Resource{
		URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
		Size: r.Size, Annotations: r.Annotations, Icons: r.Icons, Meta: r.Meta,
	}
	handler := func(ctx context.Context, call *Call) (mcp.Result, error) {
		out, err := h(ctx, call, r.URI)
		return readResult(r.URI, r.MIMEType, s.hinted(hint), out, err)
	}
	route := middleware.NewRoute(mcp.MethodResourcesRead, r.URI, "")
	op := auth.Operation{Kind: auth.KindResource, Name: r.Name, URI: r.URI}
	to := s.routes.target(route, op, s.routes.serve(handler), how)
	to.content = content
	replaced, err := s.resources.enter(r.URI, def, to)
	if replaced {
		s.ResourceUpdated(r.URI)
	}
	return err
}

// AddStaticResource registers a resource with fixed content, as [AddResource] does. Its size is
// that of content. The server keeps content, so bytes must not be changed afterwards. If it
// replaces a resource with other content, the subscribers get an update.
func AddStaticResource[Out string | []byte](s *Server, r Resource, content Out) {
	must(TryAddStaticResource(s, r, content))
}

// TryAddStaticResource is [AddStaticResource] that returns the error, as [TryAddResource]
// does.
func TryAddStaticResource[Out string | []byte](s *Server, r Resource, content Out) error {
	r.Size = int64(len(content))
	contents := contentsOf(r.URI, r.MIMEType, content).Contents
	digest := sha256.Sum256(fmt.Appendf(nil, "%T %s", content, content))
	return enterResource(s, r, func(context.Context, *Call, string) ([]mcp.ResourceContents, error) { return contents, nil }, digest[:])
}

var errNoName = errors.New("it needs a name")

func checkURI(uri string) error {
	if len(uri) > maxURI {
		return fmt.Errorf("server: resource URI %q is longer than %d bytes", cut(uri, 128), maxURI)
	}
	if parsed, err := url.Parse(uri); err != nil || !parsed.IsAbs() {
		return fmt.Errorf("server: resource URI %q is not an absolute URI", uri)
	}
	return nil
}

// hasResources reports whether a resource or a template was ever registered.
func (s *Server) hasResources() bool { return s.resources.used() || s.templates.used() }

// RemoveResources removes resources by URI. It ignores unknown ones. Running reads go on.
func (s *Server) RemoveResources(uris ...string) { s.resources.remove(uris...) }

// RemoveResourceTemplates removes templates by their URI template. It ignores unknown ones. Running
// reads go on.
func (s *Server) RemoveResourceTemplates(uriTemplates ...string) { s.templates.remove(uriTemplates...) }

// serving yields the targets that can serve a URI: the resource with that URI, and then the templates
// that it matches, in the order of registration.
func (s *Server) serving(uri string) iter.Seq[*target] {
	return func(yield func(*target) bool) {
		if to := s.resources.target(uri); to != nil && !yield(to) {
			return
		}
		for _, e := range s.templates.all() {
			if e.target.matches(uri) && !yield(e.target) {
				return
			}
		}
	}
}

// readable returns the first target that can serve a URI, or nil.
func (s *Server) readable(uri string) *target {
	for to := range s.serving(uri) {
		return to
	}
	return nil
}

// unreadable serves resources/read for a URI without a target that the caller may see.
func unreadable(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	in := era.CoreOf(req)
	switch uri := in.Name; {
	case !in.HasName:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.uri is missing")
	case len(uri) > maxURI:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.uri is longer than %d bytes", maxURI)
	default:
		return nil, noResource(uri)
	}
}
