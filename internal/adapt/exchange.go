package adapt

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// maxRead is how much of a body is read ahead, in bytes. The messages of larger bodies are not
// known.
const maxRead = 1 << 20

// headerSessionID names the header of a legacy session.
const headerSessionID = "Mcp-Session-Id"

// An Exchange is one HTTP request to the endpoint. Its methods work on nil, which means that there is
// none.
type Exchange struct {
	request       *http.Request
	values        context.Context // the context of the request, with the exchange
	principal     *auth.Principal
	authenticated bool       // the authenticator has let the caller in
	admission     *admission // of the only request; nil if the policies were not asked about it
	over, gone    atomic.Bool

	mu       sync.Mutex // guards messages
	messages []message
}

// A message is one message of a body.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	size   int
}

type exchangeKey struct{}

// ExchangeOf returns the exchange of a context, or nil.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// read reads the messages of the body. The handler can read the body again.
func (x *Exchange) read(req *http.Request) {
	body := req.Body
	data, err := io.ReadAll(io.LimitReader(body, maxRead+1))
	rest := io.Reader(body)
	if err != nil {
		rest = errorReader{err}
	}
	req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), rest), body}
	if err == nil && len(data) <= maxRead {
		x.messages = parse(data)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// parse reads one message or a batch. It returns nil if there are none, or if another decoder may read
// something else.
func parse(data []byte) []message {
	if !agreed(data) {
		return nil
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		var batch []message
		if json.Unmarshal(data, &batch) != nil {
			return nil
		}
		return batch
	}
	m := message{size: len(data)}
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return []message{m}
}

// Notice looks for cancellations in a message that arrives; see [Adapter.Cancelling].
func (a *Adapter) Notice(scope any, data []byte) { a.notice(scope, parse(data)) }

func (a *Adapter) notice(scope any, messages []message) {
	for _, m := range messages {
		if m.Method == mcp.NotificationCancelled {
			a.NoticeCancelled(scope, m.Params)
		}
	}
}

// NoticeCancelled is [Adapter.Cancelling] for the params of notifications/cancelled.
func (a *Adapter) NoticeCancelled(scope any, params jsontext.Value) {
	var p struct {
		RequestID jsontext.Value `json:"requestId"`
		Reason    jsontext.Value `json:"reason"`
	}
	if json.Unmarshal(params, &p) == nil {
		a.Cancelling(scope, ParseID(p.RequestID), text(p.Reason))
	}
}

// Request returns the HTTP request, or nil for a nil exchange.
func (x *Exchange) Request() *http.Request {
	if x == nil {
		return nil
	}
	return x.request
}

// Principal returns the principal of the caller, or nil.
func (x *Exchange) Principal() *auth.Principal {
	if x == nil {
		return nil
	}
	return x.principal
}

// Authenticated reports whether the authenticator has let the caller in.
func (x *Exchange) Authenticated() bool { return x != nil && x.authenticated }

// admissionOf returns what policies have decided about the request with a method, or nil.
func (x *Exchange) admissionOf(method string) *admission {
	if x == nil || x.admission == nil || x.messages[0].Method != method {
		return nil
	}
	return x.admission
}

// Denied reports whether policies deny the request.
func (x *Exchange) Denied() bool { return x != nil && x.admission != nil && x.admission.denied() }

// Header returns the HTTP header, or nil for a nil exchange.
func (x *Exchange) Header() http.Header {
	if x == nil {
		return nil
	}
	return x.request.Header
}

// Scope returns the session in which the ids of messages are unique, or nil.
func (x *Exchange) Scope() any {
	if id := x.Header().Get(headerSessionID); id != "" {
		return id
	}
	return nil
}

// Gone reports whether the client went away before the handler returned.
func (x *Exchange) Gone() bool {
	if x == nil {
		return false
	}
	ended := x.request.Context().Err() != nil // read before over, because it also ends after the handler
	if x.over.Load() {
		return x.gone.Load()
	}
	return ended
}

// A Raw is a message as it was sent.
type Raw struct {
	ID     mcp.ID
	Params jsontext.Value
	Bytes  int // 0 in a batch
}

// Take returns the request with a method. It returns false if there are several or none.
func (x *Exchange) Take(method string) (Raw, bool) {
	if x == nil {
		return Raw{}, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var found *message
	for i := range x.messages {
		if m := &x.messages[i]; m.Method == method && len(m.ID) > 0 {
			if found != nil {
				return Raw{}, false
			}
			found = m
		}
	}
	if found == nil {
		return Raw{}, false
	}
	return Raw{ParseID(found.ID), found.Params, found.size}, true
}

// Values returns ctx with the values of the HTTP request.
func (x *Exchange) Values(ctx context.Context) context.Context {
	if x == nil || ExchangeOf(ctx) == x {
		return ctx
	}
	return valuesContext{ctx, x.values}
}

// Notification describes a notification. x is its exchange, or nil if it did not come over HTTP.
func Notification(req *middleware.Request, params Params, x *Exchange) telemetry.Info {
	info := telemetry.Info{
		Method: req.Method, Version: req.Peer.Version, Transport: req.Peer.Transport, RemoteAddr: req.Peer.Addr,
		SessionID: req.Peer.SessionID, Header: req.Header, Principal: req.Principal,
	}
	if client := req.Client(); client.Name != "" {
		info.Client = &client
	}
	if len(params.trace) > 0 {
		info.Carrier = params.trace
	}
	switch {
	case x != nil:
		info.Network, info.Protocol, info.ProtocolVersion = "tcp", "http", "1.1"
		if major := x.request.ProtoMajor; major > 1 {
			info.ProtocolVersion = strconv.Itoa(major)
		}
	case info.Transport == "stdio" || info.Transport == "memory":
		info.Network = "pipe"
	}
	return info
}
