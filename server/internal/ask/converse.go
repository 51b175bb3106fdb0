package ask

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// Converse returns the outcome of a request whose handler has asked for input or has failed.
// result and err are what the handler has returned first; again calls it once more.
func (d *Dialog) Converse(result mcp.Result, err error, again func() (mcp.Result, error)) (mcp.Result, error) {
	for {
		err = d.requireURLs(err)
		conv, asked := d.conversation()
		if asked && conv.fault() != nil {
			return nil, conv.fault()
		}
		if err == nil {
			return result, nil
		}
		_, decided := mcp.AsError(err)
		switch {
		case decided:
			return result, err
		case errors.Is(err, mcp.ErrNotDeclared):
			return era.NotDeclared(d.Request, err)
		case !errors.Is(err, mcp.ErrInputRequired):
			return result, err
		case !asked:
			return nil, era.Fault{Err: fmt.Errorf("%w: %w", errNoQuestion, err)}
		}
		result, err = conv.next(d.Ctx)
		if result != nil || err != nil {
			return result, d.roundsFault(err)
		}
		d.beginRun()
		result, err = again()
	}
}

// roundsFault returns the error that the caller gets when a conversation has failed.
func (d *Dialog) roundsFault(err error) error {
	if errors.Is(err, errNoQuestion) {
		return era.Fault{Err: err}
	}
	malformed, isMalformed := errors.AsType[malformedError](err)
	if !errors.Is(err, errRounds) {
		if isMalformed {
			return mcp.NewError(mcp.CodeInvalidParams, "%v", malformed)
		}
		return err
	}
	core := d.Asker.core
	core.LimitReached(limits.NameInputRounds)
	why := ""
	if isMalformed {
		why = "; " + malformed.Error()
	}
	return mcp.NewError(mcp.CodeInvalidParams, "the request has asked for input %d times, which is all that %s allows%s",
		core.Limits().MaxInputRounds, limits.NameInputRounds, why).
		WithData(mcp.ErrorData{Limit: limits.NameInputRounds})
}

// CallClient sends a request to a legacy client and waits for the answer.
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

// declared returns an error if the client has not declared the capability of a method. It does
// not look at the params.
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
