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

// Context sets the context in which the server serves the client: handlers, and the
// server's authenticator, see its values. Its end ends the connection.
func Context(ctx context.Context) Option {
	return optionFunc(func(c *config) { c.ctx = ctx })
}

// ClientInfo sets how the client introduces itself.
func ClientInfo(info mcp.Implementation) Option {
	return optionFunc(func(c *config) { c.client = info })
}

// Capabilities sets what the client declares that it can do. The default is nothing.
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
// arrival, progress included. f runs on the goroutine that reads: while it runs no
// answer arrives, so that it must not wait for one. All notifications that come
// before the answer of a call were passed to f before the call returns.
func OnNotification(f func(method string, params jsontext.Value)) Option {
	return optionFunc(func(c *config) { c.notification = f })
}
