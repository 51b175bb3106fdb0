package framed_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A oneShot is a pipe whose input is known beforehand, as in "server < in.jsonl".
type oneShot struct {
	io.Reader
	mu     sync.Mutex
	out    bytes.Buffer
	closed bool
}

func (p *oneShot) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *oneShot) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

func (p *oneShot) SetWriteDeadline(time.Time) error { return nil }

// lines returns what was written.
func (p *oneShot) lines() []string {
	return strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
}

// serve serves one input to its end.
func serve(f *fake, in string) (*oneShot, error) {
	p := &oneShot{Reader: strings.NewReader(in)}
	err := framed.Serve(context.Background(), f.Core, transport.Lines(p))
	return p, err
}

// Input that ends at once gets all its answers, also for a last line without a newline.
func TestInputThatEndsAtOnceIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{})
		var in []string
		want := map[string]bool{}
		for id := range 200 {
			in = append(in, modern(id, "echo"))
			want[answer(id, "echo")] = true
		}
		p, err := serve(f, strings.Join(in, "\r\n"))
		require.NoError(t, err)
		require.True(t, p.closed)
		got := map[string]bool{}
		for _, line := range p.lines() {
			got[line] = true
		}
		require.Equal(t, want, got)
		f.Conserved()
	})
}

// After the end of the input a handler may go on for the grace. Then it is cancelled and may
// still answer.
func TestEndOfInputCancelsAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{EOFGrace: 3 * time.Second})
		begin := time.Now()
		p, err := serve(f, modern(1, "wait")+"\n")
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.ErrorIs(t, <-f.Ended, mcp.ErrTransportClosed)
		require.Equal(t, []string{answer(1, "wait")}, p.lines())
		f.Conserved()
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{EOFGrace: 3 * time.Second})
		go func() {
			<-f.Started
			time.Sleep(2 * time.Second)
			f.Release <- struct{}{}
		}()
		begin := time.Now()
		p, err := serve(f, modern(1, "wait")+"\n")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.NoError(t, <-f.Ended)
		require.Equal(t, []string{answer(1, "wait")}, p.lines())
		f.Conserved()
	})
}

// A malformed message is answered or counted, and the session goes on.
func TestMalformedLinesDoNotEndTheSession(t *testing.T) {
	parse := func(message string) string { return failure("", -32700, message) }
	for _, tt := range []struct{ name, in, want string }{
		{"text", "hello", "-32700"},
		{"half a message", `{"jsonrpc":"2.0"`, "-32700"},
		{"NUL", "{\x00}", "-32700"},
		{"invalid UTF-8", `{"jsonrpc":"2.0","id":1,"method":"` + "\xff" + `"}`, parse("the message is not valid UTF-8 at byte 34")},
		{"duplicate key", `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, "duplicate member"},
		{"too deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), "-32600"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, failure("", -32600, "a message must be a single object, not an array")},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, failure("", -32600, `member "id" must be a string or an integer`)},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, failure("", -32600, `member "id" must be a string or an integer`)},
		{"no jsonrpc", `{"id":"a","method":"ping"}`, failure(`"a"`, -32600, `member "jsonrpc" is missing`)},
		{"overlong", strings.Repeat("x", 5000), failure("", -32600, "the message is larger than max_frame_bytes")},
		{"malformed notification", `{"jsonrpc":"1.0","method":"ping"}`, ""},
		{"malformed response", `{"jsonrpc":"2.0","id":true,"result":{}}`, ""},
		{"response that nobody waits for", `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{"blank", " \t", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, limits.Limits{MaxFrameBytes: 4096})
				p, err := serve(f, tt.in+"\n"+modern(7, "echo")+"\n")
				require.NoError(t, err)
				lines := p.lines()
				switch {
				case tt.want == "":
					require.Equal(t, []string{answer(7, "echo")}, lines)
				case tt.want[0] == '{':
					require.JSONEq(t, tt.want, lines[0])
				default:
					require.Contains(t, lines[0], tt.want)
				}
				require.Equal(t, answer(7, "echo"), lines[len(lines)-1], "the session goes on")
				f.Conserved()
			})
		})
	}
}

// A session ends after too many malformed messages in a row.
func TestGarbageEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{MaxConsecutiveMalformed: 3})
		server, client := transport.Memory()
		served := make(chan error, 1)
		go func() { served <- framed.Serve(context.Background(), f.Core, transport.Lines(server)) }()
		in := bufio.NewReader(client)
		ask := func(line string) (string, error) {
			_, err := io.WriteString(client, line+"\n")
			require.NoError(t, err)
			return in.ReadString('\n')
		}
		for _, line := range []string{"bad", "bad", modern(1, "echo"), "bad", "bad"} { // a good one starts the count again
			_, err := ask(line)
			require.NoError(t, err)
		}
		_, err := ask("bad")
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, <-served)
		require.EqualValues(t, 1, f.Conserved().SessionsClosed[mcp.CauseTransportError])
	})
}

// Messages that are written at the same time do not mix.
func TestAnswersAreWholeLines(t *testing.T) {
	f := newFake(t, limits.Limits{})
	server, client := transport.Memory()
	served := make(chan error, 1)
	go func() { served <- framed.Serve(context.Background(), f.Core, transport.Lines(server)) }()
	name := "echo" + strings.Repeat("x", 50_000) // more than the writer's buffer
	go func() {
		for id := range 50 {
			_, _ = io.WriteString(client, modern(id, name)+"\n")
		}
	}()
	in := bufio.NewReader(client)
	got := map[string]bool{}
	for range 50 {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		got[strings.TrimSuffix(line, "\n")] = true
	}
	for id := range 50 {
		require.True(t, got[answer(id, name)], "id %d", id)
	}
	require.NoError(t, client.Close())
	require.NoError(t, <-served)
	f.Conserved()
}

// A lost peer ends its own requests and no others.
func TestLostPeerCancelsItsOwnRequestsOnly(t *testing.T) {
	f := newFake(t, limits.Limits{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- framed.Serve(context.Background(), f.Core, transport.Lines(server)) }()
	_, err = io.WriteString(client, modern(1, "wait")+"\n")
	require.NoError(t, err)
	<-f.Started
	require.NoError(t, client.(*net.TCPConn).SetLinger(0)) // a reset, not an orderly end
	require.NoError(t, client.Close())
	require.ErrorIs(t, <-f.Ended, mcp.ErrTransportFailed)
	require.NoError(t, <-served)
	counters := f.Conserved()
	require.EqualValues(t, 1, dropped(counters, mcp.DropBrokenPeer))
	require.EqualValues(t, 1, counters.SessionsClosed[mcp.CauseTransportError])
}

// A peer that does not read is disconnected after the write time-out, and its unread answers
// are counted as dropped.
func TestPeerThatDoesNotReadIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{WriteTimeout: 5 * time.Second})
		server, client := transport.Memory()
		served := make(chan error, 1)
		go func() { served <- framed.Serve(context.Background(), f.Core, transport.Lines(server)) }()
		begin := time.Now()
		_, err := io.WriteString(client, modern(1, "echo")+"\n"+modern(2, "wait")+"\n")
		require.NoError(t, err)
		require.NoError(t, <-served)
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.ErrorIs(t, <-f.Ended, mcp.ErrTransportFailed)
		require.EqualValues(t, 2, dropped(f.Conserved(), mcp.DropWriteTimeout))
		client.Close()
	})
}
