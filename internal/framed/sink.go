package framed

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A sink writes each message of the session as a frame.
type sink struct {
	conn  transport.Conn
	flush transport.Flusher     // may be nil
	parts transport.PartsWriter // may be nil
}

func newSink(conn transport.Conn) *sink {
	k := &sink{conn: conn}
	k.flush, _ = conn.(transport.Flusher)
	k.parts, _ = conn.(transport.PartsWriter)
	return k
}

// Write implements stream.Sink.
func (k *sink) Write(m *stream.Message) error {
	switch {
	case len(m.Rest) == 0:
		return failed(k.conn.WriteFrame(m.Frame))
	case k.parts != nil:
		return failed(k.parts.WriteParts(m.Frame, m.Rest))
	}
	return failed(k.conn.WriteFrame(append(m.Frame[:len(m.Frame):len(m.Frame)], m.Rest...)))
}

// Flush implements stream.Sink.
func (k *sink) Flush() error {
	if k.flush == nil {
		return nil
	}
	return failed(k.flush.Flush())
}

// SetWriteDeadline implements stream.Sink. A connection without deadlines is closed when the
// session has ended, which wakes its writer.
func (k *sink) SetWriteDeadline(t time.Time) { _ = k.conn.SetWriteDeadline(t) }

// failed classifies an error of a connection. The core counts an error without a class as a
// broken peer, and logs it with its type.
func failed(err error) error {
	if err == nil {
		return nil
	}
	class, known := transport.Classify(err)
	if !known {
		return err
	}
	return &stream.WriteError{Reason: class, Err: err}
}
