package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// An inputSource gets answers to the questions of a handler. What stands behind it
// depends on how the client can be asked; the handler does not know.
type inputSource interface {
	// ask returns the answer if it is there, or waits for it, or notes the question and
	// returns an error that matches [mcp.ErrInputRequired]. An answer that is returned
	// has passed q.check; one that has not is asked for again. It may be called from
	// many goroutines.
	ask(ctx context.Context, key string, q question) (jsontext.Value, error)
}

// A question is one thing that a handler wants of the client: the request as the
// handler has made it, in the form of the latest revision.
type question struct {
	mcp.InputRequest
	// check reports what is wrong with an answer. It may run code of the handler's author.
	check func(answer jsontext.Value) error
	// page is the id of the page that the user is asked to open, if the handler has given
	// it one. It is no part of the question: a modern client has no use for it.
	page string
}

// Elicit asks the user for something: to fill a form, or to open a page (specification:
// "Elicitation"). A form without a schema asks for nothing but consent. Never ask for
// a secret in a form; a page must be https and find out itself who opens it.
//
// The first time, there is no answer: Elicit notes the question and returns an error
// that matches [mcp.ErrInputRequired]. The handler returns that error, as it is or
// wrapped; the server asks, and then calls the handler again from its beginning, where
// Elicit now returns the answer. So what a handler does before a question must be
// something that may be done twice, and the questions must have the same keys each
// time. Several questions are asked at once if the handler asks them all and returns
// errors.Join of their errors. A question that comes with other params than before,
// under the same key, is asked anew.
//
// An answer that is returned has a known action and content that satisfies the schema.
// It is what the client says, and may be made up by the person who runs the client.
//
// What the client has not declared gives [mcp.ErrNotDeclared] at once (a
// [*mcp.NotDeclaredError]); the handler may then do without, or return it. A legacy
// client can answer with an error instead: a [*mcp.ClientError]. A modern client may
// never come back, and can be asked by the handlers of tools, prompts and resources
// alone: all others get [mcp.ErrNoBackChannel]. Legacy clients are waited for while the
// request lasts: give tools that ask people a [Tool.Deadline] that people can meet.
//
// That the user has consented to open a page is not that he is done there. A handler
// that must know keeps what the page's own server learns, under an id that it puts into
// the URL; if the ElicitationID is the same, [Server.ElicitationComplete] tells the
// clients that want to be told.
//
// Like all methods that ask, it may be called from many goroutines of the handler.
func (c *Call) Elicit(key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	form, err := c.server.forms.check(p)
	if err != nil {
		return nil, fmt.Errorf("server: question %q: %w", key, err)
	}
	var check func(jsontext.Value) []schema.Fault
	if form != nil {
		check = form.Validate
	}
	return c.elicit(key, *p, check)
}

// elicit asks the user. check is for the content of a form, and nil for a page.
func (c *Call) elicit(key string, p mcp.ElicitParams, check func(jsontext.Value) []schema.Fault) (*mcp.ElicitResult, error) {
	need := mcp.ElicitationCapability{URL: &struct{}{}}
	page := p.ElicitationID
	p.ElicitationID = "" // is the era bridge's
	if check != nil {
		need = mcp.ElicitationCapability{Form: &struct{}{}}
		p.Mode = "" // the default, which every revision knows
		page = ""
		if p.RequestedSchema == nil {
			p.RequestedSchema = emptyForm
		}
	}
	raw, err := c.askClient(key, mcp.ClientCapabilities{Elicitation: &need}, question{
		InputRequest: mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: &p},
		page:         page,
		check: func(raw jsontext.Value) error {
			r, err := decodeElicited(raw, check != nil)
			if err != nil || r.Content == nil {
				return err
			}
			if faults := check(r.Content); len(faults) > 0 {
				return fmt.Errorf("content: %s", faults[0])
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return decodeElicited(raw, check != nil)
}

// emptyForm asks for consent alone.
var emptyForm = jsontext.Value(`{"type":"object","properties":{}}`)

// check refuses what no client could show, and returns the form.
func (f *forms) check(p *mcp.ElicitParams) (*schema.Schema, error) {
	switch {
	case p == nil || p.Message == "":
		return nil, errors.New("an elicitation needs a message")
	case p.Mode == "" || p.Mode == mcp.ElicitForm:
		if p.URL != "" {
			return nil, errors.New("a form has no URL")
		}
		if p.RequestedSchema == nil {
			return f.parse(emptyForm)
		}
		return f.parse(p.RequestedSchema)
	case p.Mode != mcp.ElicitURL:
		return nil, fmt.Errorf("there is no elicitation mode %q", p.Mode)
	case p.RequestedSchema != nil:
		return nil, errors.New("a page has no schema")
	}
	page, err := url.Parse(p.URL)
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" {
		return nil, errors.New("the page must have an absolute http or https URL")
	}
	return nil, nil
}

// decodeElicited reads the user's answer. Content goes with an accepted form only.
func decodeElicited(raw jsontext.Value, form bool) (*mcp.ElicitResult, error) {
	var r mcp.ElicitResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	switch r.Action {
	case mcp.ElicitAccept:
		if form && r.Content == nil {
			r.Content = jsontext.Value("{}") // of a form without fields
		} else if !form {
			r.Content = nil
		}
	case mcp.ElicitDecline, mcp.ElicitCancel:
		r.Content = nil
	default:
		return nil, errors.New("the action is not known")
	}
	return &r, nil
}

// Sample asks the client's model (specification: "Sampling"). See [Call.Elicit] for
// when it returns an answer and when an error. Tools need the client's sampling.tools,
// and an IncludeContext other than "none" its sampling.context.
func (c *Call) Sample(key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	if p == nil || len(p.Messages) == 0 || p.MaxTokens <= 0 {
		return nil, fmt.Errorf("server: question %q: sampling needs messages and a number of tokens", key)
	}
	need := mcp.SamplingCapability{}
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		need.Tools = &struct{}{}
	}
	if p.IncludeContext != "" && p.IncludeContext != "none" {
		need.Context = &struct{}{}
	}
	params := *p
	raw, err := c.askClient(key, mcp.ClientCapabilities{Sampling: &need}, question{
		InputRequest: mcp.InputRequest{Method: mcp.MethodSamplingCreateMessage, Params: &params},
		check:        func(raw jsontext.Value) error { _, err := decodeSampled(raw); return err },
	})
	if err != nil {
		return nil, err
	}
	return decodeSampled(raw)
}

func decodeSampled(raw jsontext.Value) (*mcp.CreateMessageResult, error) {
	var r mcp.CreateMessageResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Role != mcp.RoleUser && r.Role != mcp.RoleAssistant || len(r.Content) == 0 || r.Model == "" {
		return nil, errors.New("a message has a role, content and the name of its model")
	}
	return &r, nil
}

// Roots asks the client for the places in its file system that the server may work
// on (specification: "Roots"); there may be none. See [Call.Elicit] for when it
// returns an answer and when an error. The URIs are the client's: check them.
func (c *Call) Roots(key string) ([]mcp.Root, error) {
	raw, err := c.askClient(key, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, question{
		InputRequest: mcp.InputRequest{Method: mcp.MethodRootsList, Params: struct{}{}},
		check:        func(raw jsontext.Value) error { _, err := decodeRoots(raw); return err },
	})
	if err != nil {
		return nil, err
	}
	return decodeRoots(raw)
}

func decodeRoots(raw jsontext.Value) ([]mcp.Root, error) {
	var r struct {
		Roots jsontext.Value `json:"roots"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Roots.Kind() != '[' {
		return nil, errors.New("roots must be an array")
	}
	var roots []mcp.Root
	if err := json.Unmarshal(r.Roots, &roots); err != nil {
		return nil, err
	}
	for _, root := range roots {
		if root.URI == "" {
			return nil, errors.New("a root has a URI")
		}
	}
	return roots, nil
}

// maxInputKey bounds the key of a question, in bytes.
const maxInputKey = 128

// askClient asks one question, if the client has declared that it can be asked.
func (c *Call) askClient(key string, need mcp.ClientCapabilities, q question) (jsontext.Value, error) {
	if key == "" || len(key) > maxInputKey {
		return nil, fmt.Errorf("server: the key of a question has 1 to %d bytes, not %d", maxInputKey, len(key))
	}
	if missing, lacks := era.Askable(c.Request).Lacks(need); lacks {
		return nil, fmt.Errorf("question %q: %w", key, &mcp.NotDeclaredError{Missing: missing})
	}
	return c.source().ask(c.ctx, key, q)
}

// Keep keeps a value, as JSON, for the runs of this handler that follow questions; the
// last value counts. Between the rounds of a modern client it travels inside the
// request's sealed state, which the client can neither read nor change but must carry:
// keep little. It does not outlive the request. Keep returns the error of encoding v.
func (c *Call) Keep(v any) error {
	raw, err := wire.Marshal(nil, v)
	if err != nil {
		return fmt.Errorf("server: encode what is kept: %w", err)
	}
	// What came with the request is older than v.
	if err := c.load(); err != nil {
		return err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	c.kept = raw
	return nil
}

// Kept decodes what an earlier run of this handler has kept into the variable that v
// points to, and reports whether there was anything. A request whose state cannot be
// accepted gives the error with which it will be answered.
func (c *Call) Kept(v any) (bool, error) {
	if err := c.load(); err != nil {
		return false, err
	}
	c.asking.Lock()
	raw := c.kept
	c.asking.Unlock()
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, fmt.Errorf("server: decode what was kept: %w", err)
	}
	return true, nil
}

// A loader is an inputSource that came with the request and is read when it is needed.
type loader interface{ load() error }

func (c *Call) load() error {
	if l, ok := c.source().(loader); ok {
		return l.load()
	}
	return nil
}

// source returns what answers the call's questions.
func (c *Call) source() inputSource {
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.input == nil {
		c.input = c.newSource()
	}
	return c.input
}

// hasAsked reports whether the handler wanted anything of an inputSource.
func (c *Call) hasAsked() bool {
	c.asking.Lock()
	defer c.asking.Unlock()
	return c.input != nil
}
