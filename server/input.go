package server

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
)

// Elicit asks the user to fill a form or to open a page (specification: "Elicitation"). A form
// without a schema asks for consent only. Never ask for a secret in a form. A page must use https
// and must authenticate the user itself.
//
// At first there is no answer: Elicit notes the question and returns an error that matches
// [mcp.ErrInputRequired]. The handler returns that error, which it may wrap. The server asks the
// client and then calls the handler again from the beginning. Now Elicit returns the answer. So the
// code before a question must be safe to run twice, and a question must have the same key each
// time. To ask several questions at once, a handler asks them all and returns errors.Join of their
// errors. A question with other params under the same key is asked again.
//
// A returned answer has a known action, and content that satisfies the schema. It comes from the
// client, so do not trust it.
//
// If the client has not declared that it can be asked, the error is [mcp.ErrNotDeclared] (a
// [*mcp.NotDeclaredError]); the handler may go on without an answer, or return the error. A legacy
// client can answer with an error, a [*mcp.ClientError]. A modern client may never repeat its
// request, and can be asked only by the handlers of tools, prompts and resources; all others get
// [mcp.ErrNoBackChannel]. The request of a legacy client waits for the answer: give tools that ask
// people a [Tool.Deadline] that is long enough for people.
//
// The answer to a question by URL says that the user has agreed to open the page, not that they
// have finished there. A handler that must know when they finish puts an id into the URL, and the
// page's own server records that id as done. If the ElicitationID is the same id,
// [Server.ElicitationComplete] tells the clients that can be told.
//
// What [ElicitForm], [Call.Sample] and [Call.Roots] return counts for max_argument_bytes_total until the handler has returned. If there
// is no room, the error is an [*mcp.Error], which the handler should return: the client is told to come back.
//
// Elicit is safe for concurrent use, like all methods that ask.
func (c *Call) Elicit(key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return c.dialog.Elicit(key, p)
}

// ElicitForm asks the user to fill a form, as [Call.Elicit] does, and decodes the answer. The form
// is inferred from T, a struct whose fields are booleans, numbers, strings, a [time.Time], or lists
// of strings to choose from. A field with omitempty may be left empty. Of the tags of [AddTool],
// forms have title, description, enum, format, default, minLength, maxLength, minimum, maximum,
// minItems and maxItems.
//
//	type order struct {
//		Size    string   `json:"size" enum:"small,large" default:"small" title:"Size"`
//		Extras  []string `json:"extras,omitempty" enum:"milk,sugar"`
//		Contact string   `json:"contact" format:"email" jsonschema:"where to send the bill"`
//	}
//
// A client shows the default in the field. A field that comes back empty is zero.
//
// The value is zero unless the action is [mcp.ElicitAccept] and the error is nil. A type that is no
// such form gives an error at its first use.
func ElicitForm[T any](c *Call, key, message string) (value T, action mcp.ElicitAction, err error) {
	return ask.ElicitForm[T](&c.dialog, key, message)
}

// ElicitationComplete says that the user is done with a page that [Call.Elicit], or an error with
// [mcp.CodeURLElicitationRequired], has asked to open under this ElicitationID. The program learns
// that from the page's own server, for example in the callback of a sign-in. The clients of
// 2025-11-25 that were asked get notifications/elicitation/complete (specification of 2025-11-25:
// "Elicitation"), on the stream of the request that asked, or on that of its session when the
// request is over. Nothing happens for modern clients, for sessions that were closed, and for
// sessions of another process.
//
// It waits for room in the client's stream, at most for the notify time-out and until ctx is done;
// after that the notification is dropped. The error is that of a client that could not be told, such
// as [mcp.ErrPeerGone] if it has no stream open; ElicitationComplete may then be called again. A
// client is told once. The server remembers the last 64 pages of a session. ElicitationComplete is
// safe for concurrent use, in a request or outside.
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
// points to, and reports whether there was anything. If the request has a state that the server
// does not accept, the error is the one that the request will be answered with.
func (c *Call) Kept(v any) (bool, error) { return c.dialog.Kept(v) }
