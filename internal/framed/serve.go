package framed

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// Serve serves the peer at the other end of a connection until all its frames are served, the
// connection breaks, ctx is cancelled, or the core shuts down. It closes the connection. When it
// returns nothing writes to the connection, unless Close does not wake a blocked write. The error
// is nil after an orderly end, and otherwise names the handlers that were abandoned.
func Serve(ctx context.Context, core *session.Core, conn transport.Conn) error {
	of := describe(conn)
	principal, refused := core.Authenticate(ctx, auth.Caller{Transport: of.Transport, RemoteAddr: of.RemoteAddr, PeerAddr: of.RemoteAddr})
	if refused != nil {
		core.RefuseStream(of, refused)
		conn.Close()
		return refused
	}
	of.Principal = principal
	s := core.Connect(of, newSink(conn))
	stop := context.AfterFunc(ctx, func() { s.Finish(mcp.CauseServerShutdown) })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-s.Done()
		conn.Close()
	}()
	r := reader{core: core, s: s, conn: conn, limits: core.Limits().Wire(), from: session.Inbound{Conn: of, Values: ctx}}
	r.read()
	<-s.Done()
	if !stop() {
		<-s.Done() // Finish runs, and the session is already closed
	}
	<-closed
	s.AwaitWriter()
	return s.Abandoned()
}

// Bounds in bytes on the description of a connection.
const (
	maxName = 32
	maxAddr = 128
)

// describe returns the description of a connection for the core.
func describe(conn transport.Conn) *session.Conn {
	var info transport.Info
	if d, ok := conn.(transport.Describer); ok {
		info = d.Describe()
	}
	return &session.Conn{
		Transport: cmp.Or(logline.Printable(info.Name, maxName), "custom"), Network: info.Network,
		Protocol: info.Protocol, ProtocolVersion: info.ProtocolVersion,
		RemoteAddr: logline.Printable(info.RemoteAddr, maxAddr),
	}
}

// A reader passes the frames of a peer to its session.
type reader struct {
	core   *session.Core
	s      *session.Session
	conn   transport.Conn
	limits wire.Limits
	from   session.Inbound // the fields that all messages share
}

// read passes frames to the session until the input ends. When it returns, the session is
// closed or is closing.
func (r *reader) read() {
	for {
		frame, err := r.conn.ReadFrame(r.limits.MaxBytes)
		if err == nil || len(frame) > 0 {
			r.receive(frame, err != nil)
		}
		switch {
		case err == nil:
			continue
		case r.over(): // the server has closed the connection itself
		case errors.Is(err, transport.ErrFrameTooLarge):
			r.s.Malformed(&wire.Error{
				Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge,
				Message: "the message is larger than " + limits.NameFrameBytes,
			})
			continue
		case errors.Is(err, io.EOF):
			r.s.EOF()
		case errors.Is(err, transport.ErrPeerClosed):
			r.s.Finish(mcp.CauseTransportClose)
		default:
			r.s.Fail(err)
		}
		return
	}
}

// over reports whether the session has ended.
func (r *reader) over() bool {
	select {
	case <-r.s.Done():
		return true
	default:
		return false
	}
}

// receive decodes one frame and passes it to the session. tail is true for a frame that came
// together with the end of the input: if it is not a message, it was cut off.
func (r *reader) receive(frame []byte, tail bool) {
	if wire.IsBatch(frame) && r.s.TakesBatches() {
		members, bad := session.SplitBatch(frame, r.limits, r.from)
		if bad != nil {
			r.malformed(bad, tail)
			return
		}
		r.s.ReceiveBatch(members)
		return
	}
	env, err := wire.Decode(frame, r.limits)
	if bad := (*wire.Error)(nil); errors.As(err, &bad) {
		r.malformed(bad, tail)
		return
	}
	in := new(r.from)
	in.Envelope, in.Bytes = env, len(frame)
	if env.Meta.HasProtocolVersion {
		in.Era = mcp.Modern
		in.Version = mcp.Version(env.Meta.ProtocolVersion)
		in.Refusal = env.CheckModernMeta()
	}
	r.s.Receive(in)
}

func (r *reader) malformed(bad *wire.Error, tail bool) {
	if tail {
		r.s.MalformedTail(bad)
	} else {
		r.s.Malformed(bad)
	}
}
