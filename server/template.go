package server

import (
	"context"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/template"
)

// A ResourceTemplate describes a family of resources to [AddResourceTemplate].
type ResourceTemplate struct {
	// URITemplate is an RFC 6570 template of at most 4096 bytes and 32 variables, each of
	// which occurs once. The longest prefix ({name:3}) is 100 characters.
	URITemplate string
	// Name is for people and need not be unique.
	Name        string
	Title       string
	Description string
	// MIMEType is that of all resources of the family, or "".
	MIMEType    string
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// Complete proposes values of variables, by their names.
	Complete map[string]CompleteFunc
	// TTL and Scope are explained at [Resource].
	TTL   time.Duration
	Scope mcp.CacheScope
	// Middleware wraps this template's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline, Class and Scopes are explained at [Tool].
	Deadline time.Duration
	Class    *Class
	Scopes   []string
	// ScopesFor returns what a URI needs in addition to Scopes. Completions need Scopes only, because their
	// URI is unknown. May be nil. It must be safe for concurrent
	// use and quick.
	ScopesFor func(uri string) []string
}

// A TemplateHandler reads the resources of one family, as a [ResourceHandler] does.
//
// vars has the values of the variables, percent-decoded. They come from the client: {id} may be
// empty or contain a slash (%2F), and {+path} may be anything, also "..". vars does not have
// variables that the URI leaves out, such as {?page}. Several values of one variable are joined
// with the separator that they have in the URI ({/path*} gives "a/b"), and with commas if the
// name is repeated ({?tag*}).
type TemplateHandler[Out Readable] func(ctx context.Context, call *Call, uri string, vars map[string]string) (Out, error)

// AddResourceTemplate registers a family of resources, or replaces the one that has its URI
// template, as [AddTool] does with a tool. It panics on a mistake in the definition; see
// [TryAddResourceTemplate].
//
// A URI is read by the resource with that URI, or else by the first template that it matches,
// in the order of registration. A replacement keeps its place in the order. URIs of more than
// 4096 bytes match no template. The server does not know which resources of a replaced template
// have changed: call [Server.ResourceUpdated] for them.
func AddResourceTemplate[Out Readable](s *Server, t ResourceTemplate, h TemplateHandler[Out]) {
	must(TryAddResourceTemplate(s, t, h))
}

// TryAddResourceTemplate is [AddResourceTemplate] that returns the error: for an invalid
// template, for a completion of an unknown variable, and in the cases of [TryAddResource].
// After an error nothing has changed.
func TryAddResourceTemplate[Out Readable](s *Server, t ResourceTemplate, h TemplateHandler[Out]) error {
	how := serving{middlewares: t.Middleware, deadline: t.Deadline, class: t.Class, need: need{t.Scopes, t.ScopesFor}}
	if err := how.checkItem(auth.KindTemplate, t.URITemplate, h != nil); err != nil {
		return err
	}
	fault := func(err error) error {
		return fmt.Errorf("server: resource template %q: %w", cut(t.URITemplate, 128), err)
	}
	if t.Name == "" {
		return fault(errNoName)
	}
	tmpl, err := template.Parse(t.URITemplate)
	if err != nil {
		return fault(err)
	}
	hint, err := readHint(t.TTL, t.Scope, how.need)
	if err != nil {
		return fault(err)
	}
	arguments, err := variables(tmpl, t.Complete)
	if err != nil {
		return fault(err)
	}
	def := &mcp.ResourceTemplate{
		URITemplate: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description,
		MIMEType: t.MIMEType, Annotations: t.Annotations, Icons: t.Icons, Meta: t.Meta,
	}
	handler := func(ctx context.Context, call *Call) (mcp.Result, error) {
		uri := call.dialog.Core.Name
		vars, ok := tmpl.Match(uri)
		if !ok {
			return nil, noResource(uri)
		}
		out, err := h(ctx, call, uri, vars)
		return readResult(uri, t.MIMEType, s.hinted(hint), out, err)
	}
	route := middleware.NewRoute(mcp.MethodResourcesRead, t.URITemplate, "")
	op := auth.Operation{Kind: auth.KindTemplate, Name: t.Name, Template: t.URITemplate}
	to := s.routes.target(route, op, s.routes.serve(handler), how)
	to.matches, to.arguments = tmpl.Matches, arguments
	if _, err := s.templates.enter(t.URITemplate, def, to); err != nil {
		return err
	}
	s.completes(arguments)
	return nil
}

// variables returns the variables of a template with their functions for completion.
func variables(tmpl *template.Template, complete map[string]CompleteFunc) (map[string]CompleteFunc, error) {
	arguments := make(map[string]CompleteFunc, len(tmpl.Variables()))
	for _, name := range tmpl.Variables() {
		arguments[name] = complete[name]
	}
	for name := range complete {
		if !tmpl.Has(name) {
			return nil, fmt.Errorf("there is no variable %q to complete", name)
		}
	}
	return arguments, nil
}
