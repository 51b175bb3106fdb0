package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Classify returns the class of an error of a write. The server checks its own state first: if
// it has closed the connection itself, it drops an answer as closed_writer whatever the error
// is. Otherwise this table decides, from top to bottom.
//
//	closed_writer   ErrClosed
//	broken_peer     ErrPeerGone, ErrPeerClosed
//	write_timeout   ErrWriteTimeout
//	closed_writer   os.ErrClosed, net.ErrClosed, EBADF, and the errors of net/http
//	                for a response that has ended
//	write_timeout   os.ErrDeadlineExceeded, and every net.Error that is a time-out
//	broken_peer     EPIPE, ECONNRESET, ECONNABORTED, ENOTCONN, ESHUTDOWN and their like,
//	                io.ErrClosedPipe, io.EOF, io.ErrUnexpectedEOF, io.ErrShortWrite,
//	                context.Canceled
//	broken_peer     every other error; known is false
//
// known is false for an error that is in no other row. The server then logs write.unclassified
// with the type of the error. The class of nil is undefined.
func Classify(err error) (class mcp.DropReason, known bool) {
	var netErr net.Error
	switch {
	case errors.Is(err, ErrClosed):
		return mcp.DropClosedWriter, true
	case isAny(err, ErrPeerGone, ErrPeerClosed):
		return mcp.DropBrokenPeer, true
	case errors.Is(err, ErrWriteTimeout):
		return mcp.DropWriteTimeout, true
	case isAny(err, os.ErrClosed, net.ErrClosed, http.ErrServerClosed, http.ErrHandlerTimeout,
		http.ErrBodyReadAfterClose, http.ErrHijacked), errors.Is(err, errBadDescriptor):
		return mcp.DropClosedWriter, true
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return mcp.DropWriteTimeout, true
	}
	return mcp.DropBrokenPeer, isAny(err, peerErrors...) ||
		isAny(err, io.ErrClosedPipe, io.EOF, io.ErrUnexpectedEOF, io.ErrShortWrite, context.Canceled)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
