package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// writeError classifies an error of a write path. The core looks at its own
// state first, because some values (io.ErrClosedPipe) do not tell whose end was
// closed; this table decides the rest. lost tells that the peer is known to be gone.
// An error that nobody knows stays as it is: the core takes it for a broken peer
// and logs it with its type.
func writeError(err error, lost bool) error {
	if err == nil {
		return nil
	}
	reason := Classify(err)
	if reason == mcp.DropBrokenPeer && !lost && !KnownPeerError(err) {
		return err
	}
	return &session.WriteError{Reason: reason, Err: err}
}

// Classify returns the class of a failed write: closed_writer if our own end was
// closed, write_timeout if the peer did not read in time, and broken_peer for
// everything else.
func Classify(err error) mcp.DropReason {
	var netErr net.Error
	switch {
	case isAny(err, os.ErrClosed, net.ErrClosed, http.ErrServerClosed, http.ErrHandlerTimeout,
		http.ErrBodyReadAfterClose, http.ErrHijacked), errors.Is(err, errBadDescriptor):
		return mcp.DropClosedWriter
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return mcp.DropWriteTimeout
	}
	return mcp.DropBrokenPeer
}

// KnownPeerError reports whether err is one of the errors by which a peer is
// known to be gone. Any other error of class broken_peer deserves an error log
// with its type.
func KnownPeerError(err error) bool {
	return isAny(err, peerErrors...) ||
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
