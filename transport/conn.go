package transport

import "time"

// A Conn carries frames between a server and one peer, in both directions. A frame is one
// JSON-RPC message, or one batch of them, as UTF-8. The frames of a server have no line break.
// Implement Conn to carry MCP over something that this module does not support, and serve it with
// [server.Server.ServeConn]. Package transporttest checks whether an implementation keeps the
// promises below.
//
// Goroutines: one goroutine calls ReadFrame. Another one, at the same time, calls WriteFrame,
// and Flush and WriteParts where the Conn has them. Any goroutine may call SetWriteDeadline and
// Close at any time, also while the other two are blocked.
//
// A Conn may implement three more interfaces: [Flusher] and [PartsWriter] make it cheaper, and
// [Describer] says what it is.
//
// [server.Server.ServeConn]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/server#Server.ServeConn
type Conn interface {
	// ReadFrame returns the next frame of the peer. It blocks until there is one. Frames come
	// whole and in the order in which they were sent. The memory of a frame belongs to the
	// caller from then on.
	//
	// limit is the largest frame in bytes that the server takes (max_frame_bytes). The Conn must
	// not hold more than about limit bytes of a larger frame. It skips the rest of that frame
	// and returns [ErrFrameTooLarge], which the server answers, and goes on with the next one.
	// A Conn that cannot skip a frame returns any other error.
	//
	// Every other error is the end of the input. It also says what the output is good for:
	//
	//   - [io.EOF]: the peer has sent its last frame and may still read (half-close). Handlers
	//     go on for the grace of eof_grace and are then cancelled with the cause
	//     transport_close; their answers are written.
	//   - [ErrPeerClosed]: the peer has closed the connection in order and reads no more. There
	//     is no grace: handlers are cancelled at once with the cause transport_close.
	//   - Any other error that wraps neither of them: the connection is broken. Handlers are
	//     cancelled at once with the cause transport_error, and their answers are dropped. The
	//     error wraps [ErrPeerGone] if the peer has gone and the transport cannot tell whether it
	//     went in order.
	//
	// A frame may come together with such an error, if the input ended before the transport
	// knew that the frame was whole. If it is not a valid message, the server ignores it.
	ReadFrame(limit int) ([]byte, error)

	// WriteFrame sends one frame. A nil error means that the frame has left the process, as far
	// as the Conn can know: it was handed to the kernel. The Conn must not keep or change the
	// memory of the frame after WriteFrame has returned.
	//
	// After an error nothing more is written. The error says which side has caused it, as
	// described at [Classify].
	WriteFrame(frame []byte) error

	// SetWriteDeadline bounds the writes that follow, and one that is blocked at the moment. A
	// write that exceeds the deadline returns an error of the class write_timeout ([Classify]);
	// the connection may be unusable after that. The zero time removes the bound. A Conn that
	// cannot bound its writes returns an error; a peer that does not read then blocks its
	// connection until the session ends.
	SetWriteDeadline(t time.Time) error

	// Close ends the connection in both directions. A blocked ReadFrame and a blocked write
	// return an error, and so do all later ones. The error of a write has the class
	// closed_writer ([Classify]). Close may be called more than once, and does not wait long
	// for the peer.
	Close() error
}

// A Flusher is a [Conn] whose writes are buffered. The server calls Flush after the last of the
// frames that wait to be sent, and after about every 64 KiB. A frame has left the process when
// Flush has returned nil. A Conn that is not a Flusher sends each frame at once. A type that
// wraps a Flusher must have Flush as well, or frames stay in the buffer.
type Flusher interface {
	Flush() error
}

// A PartsWriter is a [Conn] that takes a frame in two parts, so that the server need not copy
// an end that many answers share, such as a long list. WriteParts sends both parts as one frame,
// like WriteFrame. It must not keep or change them.
type PartsWriter interface {
	WriteParts(head, tail []byte) error
}

// A Describer is a [Conn] that says what it is. Describe is called once, before the first
// ReadFrame.
type Describer interface {
	Describe() Info
}

// Info says what a connection is, for spans, metrics and logs.
type Info struct {
	// Name is the name of the transport in logs, in /debug/requests and on the console, such
	// as "websocket". They show at most 32 bytes of it. The default is "custom". On metrics the
	// label transport is "http", "stdio" or "memory", and "_OTHER" for every other name, so that
	// the number of labels stays bounded.
	Name string
	// Network is the span attribute network.transport: "tcp", "quic", "pipe" or "unix"; may be
	// empty.
	Network string
	// Protocol and ProtocolVersion are the span attributes network.protocol.name and
	// network.protocol.version, such as "websocket" and "13"; both may be empty.
	Protocol        string
	ProtocolVersion string
	// RemoteAddr is the address of the peer as host:port, or "".
	RemoteAddr string
}
