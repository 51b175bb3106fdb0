package ask

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// CallClient sends a request of the handler's own making to a legacy client and waits for
// the answer.
func (d *Dialog) CallClient(ctx context.Context, method string, params any) (jsontext.Value, error) {
	if d.Request.Peer.Era == mcp.Modern {
		return nil, mcp.ErrNoBackChannel
	}
	if err := declared(d.Request.Capabilities(), method); err != nil {
		return nil, err
	}
	raw, err := EncodeParams(method, params)
	if err != nil {
		return nil, err
	}
	if method == mcp.MethodElicitationCreate {
		d.notePage(raw)
	}
	return d.Send(ctx, method, raw, func(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
		return d.Core.Ask(ctx, method, params)
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
