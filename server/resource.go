package server

import (
	"context"
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

// AddResource registers a resource, or panics if that is not possible: a mistake in the
// program, which shows at start-up. See [TryAddResource].
func AddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) {
	if err := TryAddResource(s, r, h); err != nil {
		panic(err)
	}
}

// TryAddResource registers a resource. It returns an error for a URI that is bad or
// taken, an empty name, a negative TTL, an unknown scope, and a handler or a middleware that
// is nil. It may be called while the server serves.
func TryAddResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) error {
	return enterResource(s, r, h, s.resources.add)
}

// ReplaceResource puts a resource in the place of the one that has its URI, as
// [ReplaceTool] does with a tool. What the new one reads may differ from what the old one
// did, so that those who have subscribed to the resource are told that it was updated,
// as [Server.ResourceUpdated] does. It returns the errors of [TryAddResource], but for a
// URI that is taken, and one if there is no such resource; then everything is as it was.
func ReplaceResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out]) error {
	err := enterResource(s, r, h, s.resources.replace)
	if err == nil {
		s.ResourceUpdated(r.URI)
	}
	return err
}

func enterResource[Out Readable](s *Server, r Resource, h ResourceHandler[Out], enter enterFunc[*mcp.Resource]) error {
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
	return enter(r.URI, def, s.newTarget(route, Item{ItemResource, r.URI}, s.serve(handler), how, s.read))
}

// AddStaticResource registers a resource that is always the same, and panics as
// AddResource does. Its size is that of content, which the server keeps as it is: bytes
// must not be changed afterwards. See [TryAddStaticResource].
func AddStaticResource[Out string | []byte](s *Server, r Resource, content Out) {
	if err := TryAddStaticResource(s, r, content); err != nil {
		panic(err)
	}
}

// TryAddStaticResource is [AddStaticResource] that returns the error, as [TryAddResource]
// does. It may be called while the server serves.
func TryAddStaticResource[Out string | []byte](s *Server, r Resource, content Out) error {
	r, h := static(r, content)
	return TryAddResource(s, r, h)
}

// ReplaceStaticResource is [ReplaceResource] with content that is always the same.
func ReplaceStaticResource[Out string | []byte](s *Server, r Resource, content Out) error {
	r, h := static(r, content)
	return ReplaceResource(s, r, h)
}

// static completes a resource that has a content and no handler.
func static[Out string | []byte](r Resource, content Out) (Resource, ResourceHandler[[]mcp.ResourceContents]) {
	r.Size = int64(len(content))
	contents := contentsOf(r.URI, r.MIMEType, content).Contents
	return r, func(context.Context, *Call, string) ([]mcp.ResourceContents, error) { return contents, nil }
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
