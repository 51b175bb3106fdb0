package server

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

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
	if c.Peer.Era == mcp.Modern {
		return nil, mcp.ErrNoBackChannel
	}
	if err := declared(c.Capabilities(), method); err != nil {
		return nil, err
	}
	var raw []byte
	if params != nil {
		var err error
		if raw, err = wire.Marshal(nil, params); err != nil {
			return nil, fmt.Errorf("server: encode the params of %s: %w", method, err)
		}
	}
	if method == mcp.MethodElicitationCreate {
		c.notePage(raw)
	}
	return c.send(ctx, method, raw, func(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
		return c.core.Ask(ctx, method, params)
	})
}

// declared checks that the client can be sent a method. What the params may hold is
// the caller's to know.
func declared(caps mcp.ClientCapabilities, method string) error {
	var missing mcp.ClientCapabilities
	switch {
	case method == mcp.MethodSamplingCreateMessage && caps.Sampling == nil:
		missing.Sampling = &mcp.SamplingCapability{}
	case method == mcp.MethodElicitationCreate && caps.Elicitation == nil:
		missing.Elicitation = &mcp.ElicitationCapability{}
	case method == mcp.MethodRootsList && caps.Roots == nil:
		missing.Roots = &mcp.RootsCapability{}
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", method, &mcp.NotDeclaredError{Missing: missing})
}
