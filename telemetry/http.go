package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
)

// HTTP wraps the handler of an MCP endpoint, for other servers than ours. An operation that
// begins with the context of such a request has the client's address, the version of HTTP and
// the header, unless its [Info] has others. If the client goes away before next returns, the
// operation is cancelled with the cause client_disconnect. The server decides whether that also
// cancels the context of its handler.
func (t *Telemetry) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &exchange{request: req}
		defer x.over.Store(true)
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x)))
	})
}

type exchangeKey struct{}

// An exchange is one request to an endpoint of [Telemetry.HTTP]. It may be nil: there is none.
type exchange struct {
	request *http.Request
	over    atomic.Bool // the handler has returned
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// lost reports whether the client went away before the handler returned.
func (x *exchange) lost() bool {
	return x != nil && !x.over.Load() && x.request.Context().Err() != nil
}

// complete sets the fields that info leaves out.
func (x *exchange) complete(info *Info) {
	if x == nil {
		return
	}
	req := x.request
	network, version := "tcp", strconv.Itoa(req.ProtoMajor)
	switch req.ProtoMajor {
	case 1:
		version += "." + strconv.Itoa(req.ProtoMinor)
	case 3:
		network = "quic"
	}
	info.Transport, info.Network = cmp.Or(info.Transport, "http"), cmp.Or(info.Network, network)
	info.Protocol, info.ProtocolVersion = cmp.Or(info.Protocol, "http"), cmp.Or(info.ProtocolVersion, version)
	info.RemoteAddr = cmp.Or(info.RemoteAddr, req.RemoteAddr)
	info.SessionID = cmp.Or(info.SessionID, req.Header.Get("Mcp-Session-Id"))
	if info.Header == nil {
		info.Header = req.Header
	}
}
