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

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// maxRead is how much of a body is read ahead, in bytes. Of larger ones the messages are
// not known.
const maxRead = 1 << 20

// headerSessionID names the header of a legacy session.
const headerSessionID = "Mcp-Session-Id"

// An Exchange is one HTTP request to the endpoint. A nil one is none.
type Exchange struct {
	request    *http.Request
	values     context.Context // of the request, and the exchange
	over, gone atomic.Bool

	mu       sync.Mutex // guards messages
	messages []message
}

// A message is what a body carries.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	size   int
}

type exchangeKey struct{}

// ExchangeOf returns the exchange to which a context belongs, or nil.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// HTTP wraps the handler of an MCP endpoint. Its requests have an [Exchange], and telemetry
// knows where they come from. A body is read ahead, up to 1 MiB.
func (a *Adapter) HTTP(next http.Handler) http.Handler {
	return a.Telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &Exchange{request: req}
		if req.Method == http.MethodPost && req.Body != nil {
			x.read(req)
		}
		a.notice(x.Scope(), x.messages)
		defer func() { // the request's context ends next, and then says nothing any more
			x.gone.Store(req.Context().Err() != nil)
			x.over.Store(true)
		}()
		x.values = context.WithValue(req.Context(), exchangeKey{}, x)
		next.ServeHTTP(w, req.WithContext(x.values))
	}))
}

// read reads the messages of the body, which is then as if it was not read.
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

// parse reads one message or a batch; nil if there are none.
func parse(data []byte) []message {
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
		Reason    string         `json:"reason"`
	}
	if json.Unmarshal(params, &p) == nil {
		a.Cancelling(scope, ParseID(p.RequestID), p.Reason)
	}
}

// Request returns the HTTP request; nil for no exchange.
func (x *Exchange) Request() *http.Request {
	if x == nil {
		return nil
	}
	return x.request
}

// Header returns the HTTP header; nil for no exchange.
func (x *Exchange) Header() http.Header {
	if x == nil {
		return nil
	}
	return x.request.Header
}

// Scope returns the session in which the ids of messages are unique; nil if there is none.
func (x *Exchange) Scope() any {
	if id := x.Header().Get(headerSessionID); id != "" {
		return id
	}
	return nil
}

// Gone reports whether the client has gone away before it was answered.
func (x *Exchange) Gone() bool {
	if x == nil {
		return false
	}
	ended := x.request.Context().Err() != nil // asked first: it also ends when all is over
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

// Take returns the only request with a method; false if there are several, or none.
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

// Notification describes a notification, of an exchange if it has come by HTTP.
func Notification(method, transport string, x *Exchange) telemetry.Info {
	info := telemetry.Info{Method: method, Transport: transport, Header: x.Header()}
	switch {
	case x != nil:
		info.Network, info.Protocol, info.ProtocolVersion = "tcp", "http", "1.1"
		if major := x.request.ProtoMajor; major > 1 {
			info.ProtocolVersion = strconv.Itoa(major)
		}
	case transport == "stdio" || transport == "memory":
		info.Network = "pipe"
	}
	return info
}
