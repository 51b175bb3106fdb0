package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A plainCaller is a client that takes no event stream for its answers: it is asked on the session's own stream.
type plainCaller struct {
	talk
	told chan error // what ElicitationComplete returns
	done chan string
}

// pageAt adds a tool to a server that asks for a page, and opens a session at another one.
func pageAt(t *testing.T, srv, first *server.Server) *plainCaller {
	t.Helper()
	c := &plainCaller{told: make(chan error, 1), done: make(chan string, 1)}
	addPage(srv, func(ctx context.Context, id string) { c.told <- srv.ElicitationComplete(ctx, id) })
	time.Sleep(time.Second) // until the change of the list has passed
	w := post(first, legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	require.Equal(t, 200, w.Code, w.Body)
	c.session = "Mcp-Session-Id: " + w.Header().Get("Mcp-Session-Id")
	require.Equal(t, 202, post(first, notice("notifications/initialized", ""), c.session).Code)
	return c
}

// calls calls the tool without waiting.
func (c *plainCaller) calls(srv *server.Server, id int) {
	go func() {
		body := legacy(id, "tools/call", call("page", fmt.Sprintf(`{"id":"page %d"}`, id)))
		c.done <- post(srv, body, c.session, "Accept: application/json").Body.String()
	}()
	synctest.Wait()
}

// asked expects the question on the session's own stream, and returns its id.
func (c *plainCaller) asked(t *testing.T, out *eventWriter) (id string) {
	t.Helper()
	c.expect(t, out, "elicitation/create")
	var asked frame
	_, data, _ := strings.Cut(c.read[len(c.read)-1], "data: ")
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(data)), &asked))
	return string(asked.ID)
}

// answers consents at a server, and expects the end of the call and of the page.
func (c *plainCaller) answers(t *testing.T, srv *server.Server, id string, out *eventWriter) {
	t.Helper()
	require.Equal(t, 202, post(srv, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, consent), c.session).Code)
	require.NoError(t, <-c.told)
	c.expect(t, out, "notifications/elicitation/complete")
	require.Contains(t, <-c.done, "accept")
}

// What a replica asks and tells without a stream for its request reaches the client at the replica where that
// reads the session's own stream.
func TestOwnStreamCarriesMessagesOfOtherReplicas(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		c.answers(t, a, c.asked(t, out), out)
		synctest.Wait()
		require.Empty(t, out.written, "nothing comes twice")
		c.hangUp()
		c.ends(t, out)
	})
}

// A question waits for a moment until the client opens the stream, at whichever replica.
func TestQuestionWaitsForTheOwnStreamElsewhere(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		c.calls(b, 2)
		time.Sleep(time.Second / 2)
		out := c.reads(a, "", "")
		c.answers(t, b, c.asked(t, out), out)
		c.hangUp()
		c.ends(t, out)
	})
}

// A question waits for a moment while the client has lost the stream. It comes when that is resumed, also at another replica
// than the one that writes it.
func TestQuestionWaitsForTheResumedOwnStream(t *testing.T) {
	for _, at := range []string{"writer", "other"} {
		t.Run(at, func(t *testing.T) {
			inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
				c := pageAt(t, b, a)
				out := c.reads(a, "", "")
				c.calls(b, 2)
				c.answers(t, b, c.asked(t, out), out)
				c.hangUp()
				c.ends(t, out)
				c.calls(b, 3)
				time.Sleep(time.Second / 2)
				out = c.resumes(map[string]*server.Server{"writer": a, "other": b}[at])
				c.answers(t, a, c.asked(t, out), out)
				c.hangUp()
				c.ends(t, out)
			})
		})
	}
}

// A client whose call is cancelled is told that the question is over, where it was asked.
func TestCancelledQuestionOfAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		id := c.asked(t, out)
		require.Equal(t, 202, post(a, notice("notifications/cancelled", `{"requestId":2}`), c.session).Code)
		c.expect(t, out, `"notifications/cancelled","params":{"requestId":`+id)
		<-c.done
		c.hangUp()
		c.ends(t, out)
	})
}

// Of two own streams one carries a message.
func TestOneOwnStreamCarriesAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t)
		third := newReplica(t, server.WithStore(shared.store()))
		defer third.Shutdown(context.Background())
		synctest.Wait()
		c := pageAt(t, b, a)
		first := c.reads(a, "", "")
		hangUp := c.hangUp
		second := c.reads(third, "", "")
		c.calls(b, 2)
		require.Equal(t, 1, len(first.written)+len(second.written))
		hangUp()
		c.hangUp()
		require.Equal(t, 202, post(a, notice("notifications/cancelled", `{"requestId":2}`), c.session).Code)
		<-c.done
	})
}

// A question fails if the client opens no stream at any replica.
func TestQuestionWithoutAnOwnStream(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		begin := time.Now()
		c.calls(b, 2)
		require.Contains(t, <-c.done, `"isError":true`)
		require.Equal(t, time.Second, time.Since(begin))
		out := c.reads(a, "", "")
		require.Empty(t, out.written)
		c.hangUp()
		c.ends(t, out)
	})
}

// A notification is not delivered if the client reads no stream at any replica.
func TestNotificationWithoutAnOwnStream(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		id := c.asked(t, out)
		c.hangUp()
		c.ends(t, out)
		begin := time.Now()
		require.Equal(t, 202, post(a, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, consent), c.session).Code)
		require.ErrorIs(t, <-c.told, mcp.ErrPeerGone)
		require.Equal(t, time.Second, time.Since(begin))
		<-c.done
	})
}
