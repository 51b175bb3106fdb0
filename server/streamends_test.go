package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A stream that can be resumed goes on without a client that does not read it. The end of that client's connection has
// its reason all the same.
func TestEndsOfUnreadStreamsThatCanBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t, server.WithTelemetry(recording(t)))
		session := openLatest(t, srv)
		// unread begins to read the session's stream, and then does not.
		unread := func(lastEvent string) (ended chan struct{}) {
			r := legacyRequest("", session)
			r.Method = http.MethodGet
			if lastEvent != "" {
				r.Header.Set("Last-Event-ID", lastEvent)
			}
			ended = make(chan struct{})
			go func() {
				defer close(ended)
				srv.Handler().ServeHTTP(newUnreadWriter(), r)
			}()
			synctest.Wait()
			return ended
		}
		ended := unread("")
		srv.RemoveTools("hi")
		<-ended
		require.Equal(t, []string{"session write_timeout"}, endedStreams(t, srv))

		k := &talk{session: session}
		out := k.reads(srv, "", "")
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		k.expect(t, out, toolsChanged)
		k.hangUp()
		k.ends(t, out)
		srv.RemoveTools("hi")
		synctest.Wait()
		<-unread(lastID(k.read[0]))
		require.Equal(t, []string{"resumed write_timeout", "session peer_left", "session write_timeout"}, endedStreams(t, srv))
	})
}

// A client that leaves while the server writes to it has left, although that write ends at its deadline, which is set for it then.
func TestEndOfAStreamWhoseClientLeavesDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := recording(t)
		srv := changing(t, server.WithTelemetry(tel))
		ctx, leave := context.WithCancel(t.Context())
		r := legacyRequest("", openLatest(t, srv)).WithContext(ctx)
		r.Method = http.MethodGet
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			srv.Handler().ServeHTTP(newUnreadWriter(), r)
		}()
		synctest.Wait()
		srv.RemoveTools("hi")
		synctest.Wait()
		leave()
		<-ended
		require.Equal(t, []string{"session peer_left"}, endedStreams(t, srv))
		require.Contains(t, scrape(t, tel), `vitrine_limit_reached_total{limit="write_timeout"} 0`)
	})
}

// The same for a client whose messages take the memory that another one needs.
func TestEndOfAnUnreadAnswerThatCanBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithTelemetry(recording(t)), server.WithLimits(server.Limits{MaxQueuedBytesTotal: 118_000}))
		release := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "chatty"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			err := call.Progress(1, 2, strings.Repeat("x", 100_000))
			<-release
			return "done", err
		})
		server.AddTool(srv, server.Tool{Name: "modest"}, text(strings.Repeat("x", 20_000)))
		session := openLatest(t, srv)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			srv.Handler().ServeHTTP(newUnreadWriter(),
				legacyRequest(legacy(7, "tools/call", call("chatty", `{}`)+`,"_meta":{`+withToken+`}`), session))
		}()
		time.Sleep(time.Second)
		require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("modest", `{}`))), "xxx")
		<-ended
		require.Equal(t, []string{"answer overload"}, endedStreams(t, srv))
		close(release)
		synctest.Wait()
		conserved(t, srv)
	})
}

// A stuckWriter is the response to a client whose connection takes nothing, not even the header.
type stuckWriter struct{ *unreadWriter }

func (w stuckWriter) FlushError() error {
	_, err := w.Write(nil)
	return err
}

// The header of a stream that a client reads has the deadline of a write, as the messages have.
func TestStreamThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := server.Limits{WriteTimeout: 5 * time.Second}
		tel := recording(t)
		srv := changing(t, server.WithTelemetry(tel), server.WithLimits(limits))
		r := legacyRequest("", openLatest(t, srv))
		r.Method = http.MethodGet
		begun := time.Now()
		srv.Handler().ServeHTTP(stuckWriter{newUnreadWriter()}, r)
		require.Equal(t, limits.WriteTimeout, time.Since(begun))
		require.Equal(t, []string{"session write_timeout"}, endedStreams(t, srv))
		require.Contains(t, scrape(t, tel), `vitrine_limit_reached_total{limit="write_timeout"} 1`)
	})
}
