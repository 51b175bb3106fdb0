package transport

import "errors"

// Errors of [Conn.ReadFrame].
var (
	// ErrFrameTooLarge: the frame was larger than the limit and was skipped. The connection
	// goes on.
	ErrFrameTooLarge = errors.New("transport: the frame is larger than the limit")
	// ErrPeerClosed: the peer has closed the connection in order, in both directions. For a
	// half-close a transport returns [io.EOF].
	ErrPeerClosed = errors.New("transport: the peer has closed the connection")
)

// Classes of the errors of a write. A [Conn] may return an error that wraps one of them, as in
//
//	fmt.Errorf("%w: %w", transport.ErrPeerGone, err)
//
// and must do so if [Classify] would not find the class by itself.
var (
	// ErrClosed: our own end was closed. Its class is closed_writer.
	ErrClosed = errors.New("transport: the connection was closed on our side")
	// ErrPeerGone: the peer is gone, or has stopped reading. Its class is broken_peer.
	ErrPeerGone = errors.New("transport: the peer is gone")
	// ErrWriteTimeout: the peer did not read within the write deadline. Its class is
	// write_timeout.
	ErrWriteTimeout = errors.New("transport: the peer did not read in time")
)
