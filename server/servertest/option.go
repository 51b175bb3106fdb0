package servertest

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Option configures a [Client].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// config collects the options.
type config struct {
	ctx          context.Context
	version      mcp.Version
	client       mcp.Implementation
	capabilities mcp.ClientCapabilities
	progress     func(Progress)
	notification func(method string, params jsontext.Value)
	input        func(context.Context, Question) (any, error)
}

// Legacy makes the client speak an older revision of the protocol, with its
// initialize handshake.
func Legacy(version mcp.Version) Option {
	return optionFunc(func(c *config) { c.version = version })
}

// Context sets the context in which the server serves the client. Handlers and the server's
// authenticator see its values. When it ends, the connection ends.
func Context(ctx context.Context) Option {
	return optionFunc(func(c *config) { c.ctx = ctx })
}

// ClientInfo sets how the client introduces itself.
func ClientInfo(info mcp.Implementation) Option {
	return optionFunc(func(c *config) { c.client = info })
}

// Capabilities sets the capabilities that the client declares. The default is none.
func Capabilities(caps mcp.ClientCapabilities) Option {
	return optionFunc(func(c *config) { c.capabilities = caps })
}

// Progress is the params member of a notifications/progress.
type Progress struct {
	Token    jsontext.Value `json:"progressToken"`
	Progress float64        `json:"progress"`
	Total    float64        `json:"total,omitzero"`
	Message  string         `json:"message,omitempty"`
}

// OnProgress asks for the progress of every call and passes it to f. The token is
// the id of the call. As with [OnNotification], f runs on the goroutine that reads.
func OnProgress(f func(Progress)) Option {
	return optionFunc(func(c *config) { c.progress = f })
}

// OnNotification passes every notification of the server to f, in the order of
// arrival, progress included. f runs on the goroutine that reads. No answer arrives while
// f runs, so that f must not wait for one. A call returns after f has returned for all
// notifications that came before the answer.
func OnNotification(f func(method string, params jsontext.Value)) Option {
	return optionFunc(func(c *config) { c.notification = f })
}

// A Question is a request of a handler to the client.
type Question struct {
	// Key is the name that the handler has given to the question. It is empty for a legacy
	// client, which does not get it.
	Key string
	// Method is [mcp.MethodElicitationCreate], [mcp.MethodSamplingCreateMessage] or [mcp.MethodRootsList],
	// or anything else that a handler sends by CallClient.
	Method string
	Params jsontext.Value
}

// OnInput lets f answer the questions of handlers, in both eras alike: the call goes on with
// the answer and returns its final result. An answer such as [*mcp.ElicitResult] is encoded
// to JSON and sent unchecked. The client must also declare what it can be asked; see
// [Capabilities]. f must be safe for concurrent use if there are several questions at a time.
//
// An error of f ends the call of a modern client, which has no other way to refuse. A legacy
// client sends the error to the server, an [*mcp.Error] as it is.
//
// Without OnInput a modern call returns the questions as its result, and a legacy
// client answers that it has no such method.
func OnInput(f func(ctx context.Context, q Question) (any, error)) Option {
	return optionFunc(func(c *config) { c.input = f })
}
