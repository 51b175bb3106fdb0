package telemetry

import (
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
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	req := x.request
	set(&info.Transport, "http")
	if req.ProtoMajor == 3 {
		set(&info.Network, "quic")
	} else {
		set(&info.Network, "tcp")
	}
	set(&info.Protocol, "http")
	version := strconv.Itoa(req.ProtoMajor)
	if req.ProtoMajor == 1 {
		version += "." + strconv.Itoa(req.ProtoMinor)
	}
	set(&info.ProtocolVersion, version)
	set(&info.RemoteAddr, req.RemoteAddr)
	set(&info.SessionID, req.Header.Get("Mcp-Session-Id"))
	if info.Header == nil {
		info.Header = req.Header
	}
}
