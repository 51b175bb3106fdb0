package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/vitrine-mcp/vitrine/transport"
)

// A queue is a transport that a program brings along: it carries frames over channels. It has what
// a Conn must have and no more.
type queue struct {
	in     <-chan []byte
	out    chan<- []byte
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

func (q queue) ReadFrame(limit int) ([]byte, error) {
	select {
	case frame, ok := <-q.in:
		switch {
		case !ok:
			return nil, io.EOF // the peer has sent its last frame and still reads
		case len(frame) > limit:
			return nil, transport.ErrFrameTooLarge
		}
		return frame, nil
	case <-q.ctx.Done():
		return nil, transport.ErrClosed
	}
}

func (q queue) WriteFrame(frame []byte) error {
	if q.ctx.Err() != nil { // select would choose at random
		return transport.ErrClosed
	}
	select {
	case q.out <- append([]byte(nil), frame...): // the frame is the caller's again when we return
		return nil
	case <-q.ctx.Done():
		return transport.ErrClosed
	}
}

func (queue) SetWriteDeadline(time.Time) error { return errors.New("a queue has no deadlines") }

func (q queue) Close() error {
	q.cancel()
	return nil
}

// The least that a transport needs: four methods. To serve such a connection, call
// srv.ServeConn(ctx, conn).
func ExampleConn() {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := make(chan []byte, 1), make(chan []byte, 1)
	var conn transport.Conn = queue{in, out, ctx, cancel}

	in <- []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	frame, err := conn.ReadFrame(4 << 20)
	fmt.Println(string(frame), err)
	close(in)
	_, err = conn.ReadFrame(4 << 20)
	fmt.Println(err)
	fmt.Println(conn.WriteFrame([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)), string(<-out))
	conn.Close()
	fmt.Println(conn.WriteFrame([]byte(`{}`)))
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"ping"} <nil>
	// EOF
	// <nil> {"jsonrpc":"2.0","id":1,"result":{}}
	// transport: the connection was closed on our side
}

func ExampleLines() {
	ours, theirs := transport.Memory()
	conn := transport.Lines(ours)
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(theirs, "\n  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n")
	}()
	frame, err := conn.ReadFrame(4 << 20)
	fmt.Println(string(frame), err)

	go func() {
		_ = conn.WriteFrame([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		_ = conn.(transport.Flusher).Flush()
	}()
	line, err := bufio.NewReader(theirs).ReadString('\n')
	fmt.Printf("%q %v\n", line, err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"ping"} <nil>
	// "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n" <nil>
}

func ExampleClassify() {
	for _, err := range []error{
		syscall.EPIPE,
		fmt.Errorf("%w: no route to the loft", transport.ErrPeerGone),
		context.DeadlineExceeded,
		io.ErrClosedPipe,
		errors.New("feathers"),
	} {
		fmt.Println(transport.Classify(err))
	}
	// Output:
	// broken_peer true
	// broken_peer true
	// write_timeout true
	// broken_peer true
	// broken_peer false
}
