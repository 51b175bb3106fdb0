package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
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
	// tells its callers apart ([WithView], [WithAuthenticator]), else [mcp.CachePublic]. A
	// result with a hint of its own is taken at its word.
	TTL   time.Duration
	Scope mcp.CacheScope
	// Middleware wraps this resource's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline and Class are explained at [Tool].
	Deadline time.Duration
	Class    *Class
}

// A ResourceHandler reads one resource. A string is its text and a []byte its bytes,
// with the URI that was asked for and the registered MIME type; of the other types, what
// has no URI or no MIME type gets those. Every resource has contents: none are a fault
// of the server.
//
// A handler returns [ErrResourceNotFound] if the resource has gone. Otherwise its errors
// are treated as those of a [PromptHandler].
type ResourceHandler[Out Readable] func(ctx context.Context, call *Call, uri string) (Out, error)

// AddResource registers a resource, or replaces the one that has its URI, as [AddTool]
// does with a tool. It panics on a mistake in the definition; see [TryAddResource].
//
// If what the list shows of the resource has changed, those who have subscribed to it are
// told that it was updated, as [Server.ResourceUpdated] does. The server does not know
// what the handlers read: a program whose data has changed calls that itself.
func AddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) {
	must(TryAddResource(s, r, h))
}

// TryAddResource is [AddResource] that returns the error: for a URI that is bad, an empty
// name, a negative TTL, an unknown scope, and a handler or a middleware that is nil. Then
// everything is as it was.
func TryAddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) error {
	return enterResource(s, r, h, nil)
}

// enterResource registers a resource. content is the digest of one that is always the
// same, or nil.
func enterResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out], content []byte) error {
	if err := checkURI(r.URI); err != nil {
		return err
	}
	how := serving{r.Middleware, r.Deadline, r.Class}
	if err := how.checkItem(ItemResource, r.URI, h != nil); err != nil {
		return err
	}
	hint, err := s.readHint(r.TTL, r.Scope)
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
		return readResult(r.URI, r.MIMEType, hint, out, err)
	}
	route := middleware.NewRoute(mcp.MethodResourcesRead, r.URI, "")
	to := s.routes.target(route, Item{Kind: ItemResource, Name: r.Name, URI: r.URI}, s.routes.serve(handler), how, s.read)
	to.content = content
	replaced, err := s.resources.enter(r.URI, def, to)
	if replaced {
		s.ResourceUpdated(r.URI)
	}
	return err
}

// AddStaticResource registers a resource that is always the same, as [AddResource] does.
// Its size is that of content, which the server keeps as it is: bytes must not be changed
// afterwards. If it replaces a resource with another content, those who have subscribed to
// it are told that it was updated.
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
