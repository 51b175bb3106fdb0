package server

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
)

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
	return c.dialog.Elicit(key, p)
}

// ElicitForm asks the user to fill a form, as [Call.Elicit] does, and decodes what
// comes back. The form is inferred from T, a struct whose fields, in their order, are
// booleans, numbers, strings, a [time.Time], or lists of strings to choose from. A
// field with omitempty may be left empty. The tags of [AddTool] say more, as far as the
// protocol has them in forms: title, description, enum, format, default, minLength,
// maxLength, minimum, maximum, minItems and maxItems.
//
//	type order struct {
//		Size    string   `json:"size" enum:"small,large" default:"small" title:"Size"`
//		Extras  []string `json:"extras,omitempty" enum:"milk,sugar"`
//		Contact string   `json:"contact" format:"email" jsonschema:"where to send the bill"`
//	}
//
// A default is what the client shows in the field; one that comes back empty is zero.
//
// The value is zero unless the action is [mcp.ElicitAccept] and the error nil. A type
// that is no such form gives an error with the first use.
func ElicitForm[T any](c *Call, key, message string) (value T, action mcp.ElicitAction, err error) {
	return ask.ElicitForm[T](&c.dialog, key, message)
}

// ElicitationComplete says that the user is done with a page that [Call.Elicit], or an
// error with [mcp.CodeURLElicitationRequired], has asked him to open under this
// ElicitationID, as the page's own server learns: in the callback of a sign-in, say.
// Clients of 2025-11-25 that were asked are told (notifications/elicitation/complete;
// specification of 2025-11-25: "Elicitation"), on the stream of the request that asked,
// or that of its session when the request is over. For all others nothing happens:
// modern clients are not told, and sessions that have ended, or are held by another
// process, have nobody to tell.
//
// It waits for room in the client's stream, at most for the notify time-out and until
// ctx is done; after that the notification is lost, and counted as dropped. The error is that of a client that cannot be told now, such as
// [mcp.ErrPeerGone] if it has no stream open; ElicitationComplete may then be called
// again. A client is told once. A session's last 64 pages are remembered. It
// may be called from any goroutine, in a request or outside.
func (s *Server) ElicitationComplete(ctx context.Context, id string) error {
	return s.routes.asker.PageDone(ctx, id)
}

// Sample asks the client's model (specification: "Sampling"). See [Call.Elicit] for
// when it returns an answer and when an error. Tools need the client's sampling.tools,
// and an IncludeContext other than "none" its sampling.context.
func (c *Call) Sample(key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return c.dialog.Sample(key, p)
}

// Roots asks the client for the places in its file system that the server may work
// on (specification: "Roots"); there may be none. See [Call.Elicit] for when it
// returns an answer and when an error. The URIs are the client's: check them.
func (c *Call) Roots(key string) ([]mcp.Root, error) { return c.dialog.Roots(key) }

// CallClient sends a request to the client that made this call and waits for its
// answer: [mcp.MethodSamplingCreateMessage], [mcp.MethodElicitationCreate], [mcp.MethodRootsList] or
// [mcp.MethodPing]. Only legacy clients can be sent requests; for all others it
// returns [mcp.ErrNoBackChannel] at once. A client that has not finished its handshake
// is sent pings alone: everything else waits until it has.
//
// The wait ends with the first of: the answer, the end of ctx, the end of the call
// (its cause, see [mcp.CauseOf]), the loss of the client ([mcp.ErrPeerGone]). A
// client that answers with an error gives a [*mcp.ClientError]. A method that the
// client did not declare gives [mcp.ErrNotDeclared] and is not sent.
func (c *Call) CallClient(ctx context.Context, method string, params any) (jsontext.Value, error) {
	return c.dialog.CallClient(ctx, method, params)
}

// Keep keeps a value, as JSON, for the runs of this handler that follow questions; the
// last value counts. Between the rounds of a modern client it travels inside the
// request's sealed state, which the client can neither read nor change but must carry:
// keep little. It does not outlive the request. Keep returns the error of encoding v.
func (c *Call) Keep(v any) error { return c.dialog.Keep(v) }

// Kept decodes what an earlier run of this handler has kept into the variable that v
// points to, and reports whether there was anything. A request whose state cannot be
// accepted gives the error with which it will be answered.
func (c *Call) Kept(v any) (bool, error) { return c.dialog.Kept(v) }
