package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
)

// HTTP wraps the handler of an MCP endpoint of a server that is not ours: operations that
// begin with a context of its requests know the client's address, the version of HTTP and
// the header, unless their [Info] says otherwise. They are cancelled with the cause
// client_disconnect if the client goes away before next has returned; whether that cancels
// their context is up to the server.
func (t *Telemetry) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &exchange{request: req}
		defer x.over.Store(true)
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x)))
	})
}

type exchangeKey struct{}

// An exchange is one request to an endpoint that [Telemetry.HTTP] wraps. A nil one is none.
type exchange struct {
	request *http.Request
	over    atomic.Bool // the handler has returned
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// lost reports whether the client has gone away before it was answered.
func (x *exchange) lost() bool {
	return x != nil && !x.over.Load() && x.request.Context().Err() != nil
}

// complete fills in what info leaves out.
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
