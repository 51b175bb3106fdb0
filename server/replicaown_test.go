package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
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

// asked expects the question on the session's own stream, maybe after changes of lists, and returns its id.
func (c *plainCaller) asked(t *testing.T, out *eventWriter) (id string) {
	t.Helper()
	for got := ""; !strings.Contains(got, "elicitation/create"); {
		open := false
		got, open = <-out.written
		require.True(t, open, "the exchange has ended before the question")
		c.read = append(c.read, got)
	}
	var asked frame
	_, data, _ := strings.Cut(c.read[len(c.read)-1], "data: ")
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(data)), &asked))
	return string(asked.ID)
}

// consents answers the question at a server.
func (c *plainCaller) consents(t *testing.T, srv *server.Server, id string) {
	t.Helper()
	require.Equal(t, 202, post(srv, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, consent), c.session).Code)
	synctest.Wait()
}

// finishes expects the end of the call and of the page.
func (c *plainCaller) finishes(t *testing.T, out *eventWriter) {
	t.Helper()
	require.NoError(t, <-c.told)
	c.expect(t, out, "notifications/elicitation/complete")
	require.Contains(t, <-c.done, "accept")
}

// fails expects that the call fails at once, because its client cannot be asked.
func (c *plainCaller) fails(t *testing.T) {
	t.Helper()
	begin := time.Now()
	require.Contains(t, <-c.done, `"isError":true`)
	require.Zero(t, time.Since(begin))
}

// leaves breaks the connection of the stream that is read.
func (c *plainCaller) leaves(t *testing.T, out *eventWriter) {
	t.Helper()
	c.hangUp()
	c.ends(t, out)
	synctest.Wait()
}

// completions returns how many notifications that a page is done a server has counted as sent, and as dropped
// for each reason.
func completions(srv *server.Server) (sent int, dropped map[mcp.DropReason]int) {
	counters := srv.Core().Snapshot().Counters
	dropped = map[mcp.DropReason]int{}
	for d, n := range counters.NotificationsDropped {
		if d.Method == mcp.NotificationElicitationComplete {
			dropped[d.Reason] += int(n) //nolint:gosec // small
		}
	}
	return int(counters.NotificationsSent[mcp.NotificationElicitationComplete]), dropped //nolint:gosec // small
}

// What a replica asks and tells without a stream for its request reaches the client at the replica where that
// reads the session's own stream. It counts where it was sent from.
func TestOwnStreamCarriesMessagesOfOtherReplicas(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		c.consents(t, a, c.asked(t, out))
		c.finishes(t, out)
		synctest.Wait()
		require.Empty(t, out.written, "nothing comes twice")
		sent, dropped := completions(b)
		require.Equal(t, 1, sent)
		require.Empty(t, dropped)
		sent, dropped = completions(a)
		require.Zero(t, sent)
		require.Empty(t, dropped)
		c.leaves(t, out)
	})
}

// A client that goes on reading the stream of one replica at another one is asked there, by both.
func TestResumedOwnStreamCarriesMessagesOfAllReplicas(t *testing.T) {
	for _, at := range []string{"the writer", "another replica", "a third replica"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, shared := replicas(t)
				third := newReplica(t, server.WithStore(shared.store()))
				defer func() { require.NoError(t, third.Shutdown(context.Background())) }()
				synctest.Wait()
				for _, asks := range []*server.Server{a, b} {
					c := pageAt(t, asks, a)
					out := c.reads(a, "", "")
					c.calls(asks, 2)
					c.consents(t, b, c.asked(t, out))
					c.finishes(t, out)
					c.leaves(t, out)
					out = c.resumes(map[string]*server.Server{"the writer": a, "another replica": b, "a third replica": third}[at])
					c.calls(asks, 3)
					c.consents(t, a, c.asked(t, out))
					c.finishes(t, out)
					synctest.Wait()
					require.Empty(t, out.written, "nothing comes twice")
					c.leaves(t, out)
				}
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
		c.leaves(t, out)
	})
}

// Of several own streams the latest carries what other replicas send. When it has ended the one before does.
func TestLatestOwnStreamCarriesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t)
		third := newReplica(t, server.WithStore(shared.store()))
		defer func() { require.NoError(t, third.Shutdown(context.Background())) }()
		synctest.Wait()
		c := pageAt(t, b, a)
		first := c.reads(a, "", "")
		hangUp := c.hangUp
		latest := c.reads(third, "", "")
		c.calls(b, 2)
		c.consents(t, a, c.asked(t, latest))
		c.finishes(t, latest)
		require.Empty(t, first.written)
		c.leaves(t, latest)
		c.calls(b, 3)
		c.consents(t, third, c.asked(t, first))
		c.finishes(t, first)
		c.hangUp = hangUp
		c.leaves(t, first)
	})
}

// Without an own stream at any replica a question fails at once, as without other replicas. It asks the store
// once, because a stream may have been opened just now.
func TestQuestionWithoutAnOwnStream(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		c := pageAt(t, b, a)
		require.Equal(t, 200, post(b, legacy(5, "ping", ""), c.session).Code)
		shared.used()
		c.calls(b, 2)
		c.fails(t)
		require.Equal(t, 1, shared.used())
	})
}

// A question goes to a stream that was opened just now, although its replica has not heard of that: it asks the store.
func TestQuestionForAnOwnStreamOfWhichAReplicaHasNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		a := newReplica(t, server.WithStore(shared.store()))
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: late{shared, time.Second}, Events: shared}))
		defer func() {
			require.NoError(t, a.Shutdown(context.Background()))
			require.NoError(t, b.Shutdown(context.Background()))
		}()
		synctest.Wait()
		c := pageAt(t, b, a)
		require.Equal(t, 200, post(b, legacy(5, "ping", ""), c.session).Code)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		c.consents(t, a, c.asked(t, out))
		c.finishes(t, out)
		c.leaves(t, out)
	})
}

// What is told while the client is away is stored where its stream is, and comes when it resumes that, anywhere.
func TestNotificationWaitsForTheResumedOwnStream(t *testing.T) {
	for _, at := range []string{"the writer", "another replica"} {
		t.Run(at, func(t *testing.T) {
			inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
				c := pageAt(t, b, a)
				out := c.reads(a, "", "")
				c.calls(b, 2)
				id := c.asked(t, out)
				c.leaves(t, out)
				c.consents(t, a, id)
				require.NoError(t, <-c.told)
				require.Contains(t, <-c.done, "accept")
				out = c.resumes(map[string]*server.Server{"the writer": a, "another replica": b}[at])
				c.expect(t, out, "notifications/elicitation/complete")
				c.leaves(t, out)
			})
		})
	}
}

// A notification without a stream that could carry it is dropped where it was sent from.
func TestNotificationWithoutAnOwnStream(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		id := c.asked(t, out)
		require.NoError(t, a.Shutdown(context.Background()))
		c.ends(t, out)
		synctest.Wait() // until b has heard: until then it gives the notification to a, whose fate it learns later
		c.consents(t, b, id)
		require.ErrorIs(t, <-c.told, mcp.ErrPeerGone)
		<-c.done
		_, dropped := completions(b)
		require.Equal(t, map[mcp.DropReason]int{mcp.DropStreamGone: 1}, dropped)
	})
}

// The next stream of the client carries what the one before cannot carry any more.
func TestOwnStreamMovesToAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		c.consents(t, a, c.asked(t, out))
		c.finishes(t, out)
		require.NoError(t, a.Shutdown(context.Background()))
		c.ends(t, out)
		for id, srv := range []*server.Server{2: b, 3: newReplica(t, server.WithStore(shared.store()))} {
			if srv == nil {
				continue
			}
			synctest.Wait()
			out = c.reads(srv, "", "")
			c.calls(b, id+1)
			c.consents(t, srv, c.asked(t, out))
			c.finishes(t, out)
			c.leaves(t, out)
			if srv != b {
				require.NoError(t, srv.Shutdown(context.Background()))
			}
		}
	})
}

// A replica that does not answer counts as dead after a while: the fate of what it was given is unknown, and
// nothing more is given to it until it is heard of again.
func TestOwnStreamOfADeadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		quiet := &mutable{Signals: shared}
		a := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: quiet, Events: shared}))
		b := newReplica(t, server.WithStore(shared.store()))
		defer func() {
			require.NoError(t, a.Shutdown(context.Background()))
			require.NoError(t, b.Shutdown(context.Background()))
		}()
		synctest.Wait()
		c := pageAt(t, b, a)
		out := c.reads(a, "", "")
		c.calls(b, 2)
		id := c.asked(t, out)
		quiet.mute.Store(true)
		c.consents(t, b, id)
		require.NoError(t, <-c.told)
		require.Contains(t, <-c.done, "accept")
		c.calls(b, 3) // waits behind the notification, and then for another stream
		time.Sleep(41 * time.Second)
		_, dropped := completions(b)
		require.Equal(t, map[mcp.DropReason]int{mcp.DropUnconfirmed: 1}, dropped)
		c.calls(b, 4)
		c.fails(t)
		quiet.mute.Store(false)
		c.leaves(t, out)
		out = c.resumes(a)
		c.consents(t, a, c.asked(t, out))
		c.finishes(t, out)
		c.leaves(t, out)
	})
}

// While the store is away a question that would have to go to another replica fails, and the own stream here
// works. When it is back the others know of a stream that was opened meanwhile.
func TestOwnStreamWhileTheStoreIsAway(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		c := pageAt(t, b, a)
		require.Equal(t, 200, post(b, legacy(5, "ping", ""), c.session).Code)
		shared.fail(errors.New("away"))
		for range 6 {
			post(b, notice("notifications/cancelled", `{"requestId":99}`), c.session)
			synctest.Wait()
		}
		out := c.reads(a, "", "")
		c.calls(b, 2)
		c.fails(t)
		shared.fail(nil)
		time.Sleep(time.Minute)
		c.calls(b, 3)
		c.consents(t, a, c.asked(t, out))
		c.finishes(t, out)
		shared.fail(errors.New("away"))
		c.calls(b, 4)
		c.fails(t)
		c.leaves(t, out)
		out = c.reads(b, "", "")
		c.calls(b, 6)
		c.consents(t, b, c.asked(t, out))
		c.finishes(t, out)
		c.leaves(t, out)
		shared.fail(nil)
		time.Sleep(time.Minute)
	})
}

// A notification for the own stream of another replica is dropped while the store is away. What the store was asked to
// pass on and has not confirmed is counted as unconfirmed, also if it hangs. Once it is not asked any more, nothing
// has gone to the stream.
func TestNotificationsForAnOwnStreamWhileTheStoreIsAway(t *testing.T) {
	for name, tt := range map[string]struct {
		away   func(b *server.Server, shared *sharedMemory, session string)
		reason mcp.DropReason
	}{
		"it fails": {func(_ *server.Server, shared *sharedMemory, _ string) { shared.fail(errors.New("away")) }, mcp.DropUnconfirmed},
		"it hangs": {func(_ *server.Server, shared *sharedMemory, _ string) { shared.stall(true) }, mcp.DropUnconfirmed},
		"it is not asked any more": {func(b *server.Server, shared *sharedMemory, session string) {
			shared.fail(errors.New("away"))
			for range 5 {
				post(b, notice("notifications/cancelled", `{"requestId":99}`), session)
				synctest.Wait()
			}
		}, mcp.DropStreamGone},
	} {
		t.Run(name, func(t *testing.T) {
			inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
				c := pageAt(t, b, a)
				out := c.reads(a, "", "")
				c.calls(b, 2)
				id := c.asked(t, out)
				back := func() {
					shared.fail(nil)
					shared.stall(false)
					time.Sleep(time.Minute)
				}
				defer back() // a shutdown would wait for a store that hangs
				tt.away(b, shared, c.session)
				c.consents(t, b, id)
				<-c.told
				require.Contains(t, <-c.done, "accept", "the call does not need the store")
				time.Sleep(5 * time.Second) // more than store_timeout
				sent, dropped := completions(b)
				require.Zero(t, sent)
				require.Equal(t, map[mcp.DropReason]int{tt.reason: 1}, dropped)
				require.Empty(t, out.written)

				back()
				c.calls(b, 3)
				c.consents(t, b, c.asked(t, out))
				c.finishes(t, out)
				synctest.Wait()
				sent, dropped = completions(b)
				require.Equal(t, 1, sent)
				require.Equal(t, map[mcp.DropReason]int{tt.reason: 1}, dropped)
				c.leaves(t, out)
			})
		})
	}
}
