package server

import (
	"context"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// A paramHeader is an argument that clients repeat in an HTTP header, for proxies that do not read
// bodies. Header and body must agree, because a proxy decides by the header.
type paramHeader struct {
	schema.Header
	key string // as net/http spells it
}

func paramHeaders(of *schema.Schema) []paramHeader {
	var list []paramHeader
	for _, h := range of.Headers() {
		list = append(list, paramHeader{h, http.CanonicalHeaderKey("Mcp-Param-" + h.Name)})
	}
	return list
}

// withParams returns an error to calls whose Mcp-Param headers contradict their arguments.
func withParams(headers []paramHeader, next middleware.Handler) middleware.Handler {
	if len(headers) == 0 {
		return next
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if in := era.CoreOf(req).Inbound; era.RepeatsParams(in) {
			if err := checkParams(headers, in); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// checkParams compares the Mcp-Param headers of a request with its arguments (specification:
// "x-mcp-header"). It ignores values that are no scalars: they have no header form, and the schema
// does not allow them.
func checkParams(headers []paramHeader, in *session.Inbound) *mcp.Error {
	for _, h := range headers {
		value := schema.At(in.Arguments, h.Path...)
		switch value.Kind() {
		case '"', '0', 't', 'f':
		case 'n', 0: // a header without an argument could mislead a proxy
			if len(in.Header[h.key]) > 0 {
				return mcp.NewError(mcp.CodeHeaderMismatch, "%s has no argument in the body", h.key)
			}
			continue
		default:
			continue
		}
		given := in.Header[h.key]
		if len(given) == 0 {
			return mcp.NewError(mcp.CodeHeaderMismatch, "%s is missing", h.key)
		}
		if len(given) > 1 {
			return mcp.NewError(mcp.CodeHeaderMismatch, "%s is given more than once", h.key)
		}
		text, ok := streamable.DecodeHeaderValue(given[0])
		if !ok {
			return mcp.NewError(mcp.CodeHeaderMismatch, "%s is not valid base64", h.key)
		}
		if !schema.SameAsHeader(value, text) {
			return mcp.NewError(mcp.CodeHeaderMismatch, "%s differs from the body", h.key)
		}
	}
	return nil
}
