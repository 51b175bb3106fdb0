package session

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A peer is the far end of a byte stream.
type peer struct {
	w    *world
	s    *Session
	sink *scriptSink
}

// connect opens a byte stream. Its legacy handshake is done if ready is set.
func (w *world) connect(ready bool) *peer {
	p := &peer{w: w, sink: &scriptSink{}}
	p.s = w.core.Connect(&Conn{Transport: "stdio", Network: "pipe"}, p.sink)
	if ready {
		p.s.Initialize(&Peer{Version: mcp.Version20251125})
		p.s.Initialized()
	}
	return p
}

// send feeds one frame, as the transport does.
func (p *peer) send(frame string) {
	p.w.t.Helper()
	in, bad := inbound(p.s.conn, frame)
	if bad != nil {
		p.s.Malformed(bad)
		return
	}
	p.s.Receive(in)
}

// inbound decodes a frame.
func inbound(conn *Conn, frame string) (*Inbound, *wire.Error) {
	env, err := wire.Decode([]byte(frame), wire.DefaultLimits())
	if err != nil {
		return nil, err.(*wire.Error)
	}
	in := &Inbound{Envelope: env, Conn: conn, Bytes: len(frame)}
	if env.Meta.HasProtocolVersion {
		in.Era, in.Version = mcp.Modern, mcp.Version(env.Meta.ProtocolVersion)
	}
	return in, nil
}

// call sends a legacy tools/call; id is JSON.
func (p *peer) call(id, tool string) { p.send(callFrame(id, tool)) }

func callFrame(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

// modernFrame is a modern tools/call.
func modernFrame(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool)
}

// cancel sends notifications/cancelled; id is JSON.
func (p *peer) cancel(id, reason string) { p.send(cancelFrame(id, reason)) }

func cancelFrame(id, reason string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%q}}`, id, reason)
}

// eof closes the peer's sending side; the teardown goes on in the background.
func (p *peer) eof() { go p.s.EOF() }

// frames returns what the peer has received so far.
func (p *peer) frames() []string {
	p.w.settle()
	return p.sink.frames()
}
