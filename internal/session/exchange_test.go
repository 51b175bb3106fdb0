package session

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An exchange is one HTTP POST (or the GET stream) as the core sees it.
type exchange struct {
	w      *world
	stream *stream.Stream
	sink   *scriptSink
	err    error         // what Pump has returned
	over   time.Time     // when it has
	done   chan struct{} // closed then
}

// open opens a legacy HTTP session whose handshake is done.
func (w *world) open(id string) *Session { return w.openOver(httpConn, id) }

func (w *world) openOver(conn *Conn, id string) *Session {
	w.t.Helper()
	s, reason, err := w.core.Open(conn, id)
	require.Nil(w.t, err, "%v", reason)
	s.Initialize(&Peer{Version: mcp.Version20251125})
	s.Initialized()
	return s
}

var httpConn = &Conn{Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: "1.1"}

// from returns the connection of a caller at an address, without a principal.
func from(addr string) *Conn {
	conn := *httpConn
	conn.RemoteAddr = addr + ":1234"
	return &conn
}

// post sends one request by HTTP: to a legacy session, or a modern one if s is nil.
func (w *world) post(s *Session, frame string) *exchange { return w.postFrom(httpConn, s, frame) }

// postFrom is post over a connection.
func (w *world) postFrom(conn *Conn, s *Session, frame string) *exchange {
	w.t.Helper()
	in, bad := inbound(conn, frame)
	require.Nil(w.t, bad)
	x := w.newExchange(1, in.Era)
	x.stream = w.core.Exchange(conn, 1, in.Era)
	if s == nil {
		w.core.Receive(in, x.stream)
	} else {
		s.ReceiveOn(in, x.stream)
	}
	x.pump(x.sink)
	return x
}

// get opens the session's own stream.
func (w *world) get(s *Session) (*exchange, bool) {
	x := w.newExchange(0, mcp.Legacy)
	ok := s.Attach(x.stream)
	if !ok {
		x.stream.Fail(mcp.DropClosedWriter)
	}
	x.pump(x.sink)
	return x, ok
}

func (w *world) exchange(answers int, era mcp.Era) *exchange {
	x := w.newExchange(answers, era)
	x.pump(x.sink)
	return x
}

func (w *world) newExchange(answers int, era mcp.Era) *exchange {
	x := &exchange{w: w, sink: &scriptSink{}, done: make(chan struct{})}
	x.stream = w.core.Exchange(httpConn, answers, era)
	return x
}

// pump starts the exchange's writer.
func (x *exchange) pump(sink stream.Sink) {
	go func() {
		defer close(x.done)
		x.err = x.stream.Pump(sink)
		x.over = time.Now()
	}()
}

// leave is the client hanging up, and the writer that learns of it: at once, if no quick
// answer is expected any more.
func (x *exchange) leave() {
	x.w.settle()
	if x.stream.Quick() {
		time.Sleep(stream.QuickAnswer)
	}
	x.sink.leave()
	x.w.settle()
}

// frames returns what the client of the exchange has received so far.
func (x *exchange) frames() []string {
	x.w.settle()
	return x.sink.frames()
}

// ended reports whether the exchange is over.
func (x *exchange) ended() bool {
	x.w.settle()
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// vanish loses the exchange: the transport tells the stream, and the writer ends.
func (x *exchange) vanish() {
	x.w.t.Helper()
	x.w.settle()
	x.leave()
	x.w.settle()
}

// postOn posts a request on an exchange whose wire is scripted already.
func (w *world) postOn(x *exchange, s *Session, frame string) {
	w.t.Helper()
	in, bad := inbound(httpConn, frame)
	require.Nil(w.t, bad)
	if s == nil {
		w.core.Receive(in, x.stream)
	} else {
		s.ReceiveOn(in, x.stream)
	}
}
