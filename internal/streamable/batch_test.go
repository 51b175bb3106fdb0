package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	jsonOnly = "Accept: application/json"
	nothing  = `{"jsonrpc":"2.0","method":"notifications/x"}`
	response = `{"jsonrpc":"2.0","id":"nobody","result":{}}`
)

// batching opens a legacy session of the revision that has batches.
func (e *endpoint) batching() header {
	e.t.Helper()
	sid := e.session()
	e.sessionOf(sid).Initialize(&session.Peer{Version: mcp.Version20250326})
	return sid
}

func (e *endpoint) sessionOf(sid header) *session.Session {
	return e.Core.Session(strings.TrimPrefix(sid, "Mcp-Session-Id: "), nil)
}

func event(data string) string { return "event: message\ndata: " + data + "\n\n" }

func call(id int, name string) string { return legacy(id, "tools/call", name) }

const notAnArray = "a message must be a single object, not an array"

// Only sessions that have agreed on 2025-03-26 may send batches. Any other array is malformed.
func TestBatchesNeedASessionOf20250326(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	body := batch(legacy(1, "ping", "x"))
	for _, tt := range []struct {
		name    string
		version mcp.Version // of the session; "" is no session
		headers []header
		status  int
		id      string // of the error
	}{
		{"2024-11-05", mcp.Version20241105, nil, 400, "null"},
		{"2025-03-26", mcp.Version20250326, nil, 200, ""},
		{"2025-03-26, with its version", mcp.Version20250326, []header{"Mcp-Protocol-Version: 2025-03-26"}, 200, ""},
		{"2025-06-18", mcp.Version20250618, nil, 400, "null"},
		{"2025-11-25", mcp.Version20251125, nil, 400, ""},
		{"modern header", mcp.Version20250326, []header{"Mcp-Protocol-Version: 2026-07-28"}, 400, ""},
		{"unknown version", mcp.Version20250326, []header{"Mcp-Protocol-Version: v999"}, 400, ""},
		{"no session", "", nil, 400, "null"},
		{"modern client", "", modernHeaders("ping", ""), 400, ""},
	} {
		headers := append([]header{jsonOnly}, tt.headers...)
		if tt.version != "" {
			sid := e.session()
			e.sessionOf(sid).Initialize(&session.Peer{Version: tt.version})
			headers = append(headers, sid)
		}
		res, got := e.post(body, headers...)
		require.Equal(t, tt.status, res.StatusCode, tt.name)
		want := batch(answer(1, ""))
		if tt.status == 400 {
			want = failure(tt.id, -32600, notAnArray)
		}
		require.JSONEq(t, want, got, tt.name)
	}
	// Who has lost his session must learn that, and not that he speaks badly.
	res, got := e.post(body, "Mcp-Session-Id: gone")
	require.Equal(t, 404, res.StatusCode)
	require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"there is no such session","data":{"reason":"session_unknown"}}}`, got)

	c := e.Conserved()
	require.EqualValues(t, 7, c.Ignored[session.Ignored{Kind: mcp.IgnoredFrame, Reason: mcp.IgnoreBatch}])
	require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseSessionUnknown: 1}, c.ExchangesRefused)
}

// A client that takes an event stream gets each answer when it is ready. Any other client gets
// all answers in one array.
func TestBatchIsAnsweredInTheFormOfTheClient(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		sid := e.batching()

		res, err := e.srv.Client().Do(e.request(t.Context(), "POST", batch(call(1, "wait"), nothing, call(2, "progress:x"), response), sid))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		in := bufio.NewReader(res.Body)
		first := make([]byte, len(event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":0}}`)+event(answer(2, "progress:x"))))
		_, err = io.ReadFull(in, first) // before the other one has returned
		require.NoError(t, err)
		require.Equal(t, event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":0}}`)+event(answer(2, "progress:x")), string(first))
		e.Release <- struct{}{}
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, event(answer(1, "wait")), string(rest))

		type result struct {
			res  *http.Response
			body string
		}
		done := make(chan result, 1)
		req := e.request(t.Context(), "POST", batch(call(1, "wait"), call(2, "echo"), `7`), sid, jsonOnly)
		go func() {
			res, body := e.do(req)
			done <- result{res, body}
		}()
		<-e.Started
		<-e.Started
		require.Empty(t, done)
		e.Release <- struct{}{}
		got := <-done
		require.Equal(t, 200, got.res.StatusCode)
		require.Equal(t, "application/json", got.res.Header.Get("Content-Type"))
		require.EqualValues(t, len(got.body), got.res.ContentLength)
		require.ElementsMatch(t, []string{answer(1, "wait"), answer(2, "echo"), nullFailure(-32600, "a message must be an object")},
			strings.Split(strings.ReplaceAll(strings.Trim(got.body, "[]"), "},{", "}\n{"), "\n"))

		c := e.Conserved()
		admitted, sent, _, _ := c.Totals()
		require.Equal(t, []uint64{5, 5}, []uint64{admitted, sent}) // with initialize
		require.EqualValues(t, 5, c.Received["request"])
		require.EqualValues(t, 1, c.Received["notification"])
		require.EqualValues(t, 1, c.Received["response"])
		require.EqualValues(t, 1, c.Received["invalid"])
	})
}

// The status of a batch, and its body if that is JSON.
func TestBatchStatus(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxBatch: 3}, streamable.Config{})
	sid := e.batching()
	object := nullFailure(-32600, "a message must be an object")
	for _, tt := range []struct {
		name, body string
		status     int
		want       string // "" is no body
	}{
		{"notification", batch(nothing), 202, ""},
		{"responses", batch(response, response), 202, ""},
		{"notification and response", batch(nothing, response), 202, ""},
		{"notification and what is not answered", batch(nothing, `{"jsonrpc":"1.0","method":"x"}`), 202, ""},
		{"only what is not answered", batch(`{"jsonrpc":"1.0","method":"x"}`), 400, nullFailure(-32600, `member "jsonrpc" must be "2.0"`)},
		{"cancelled in the batch", batch(call(1, "wait"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), 202, ""},
		{"empty", `[]`, 400, nullFailure(-32600, "a batch must not be empty")},
		{"half of it", `[{"jsonrpc":"2.0"}`, 400, nullFailure(-32700, "invalid JSON: unexpected EOF at byte 18")},
		{"two of it", `[1] [2]`, 400, nullFailure(-32700, "invalid JSON: unexpected data after the message at byte 4")},
		{"too many", batch(nothing, nothing, nothing, nothing), 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch must not have more than 3 messages","data":{"limit":"max_batch"}}}`},
		{"nothing good", batch(`1`, `"x"`), 400, batch(object, object)},
		{"nothing good but a notification", batch(`1`, nothing), 400, batch(object)},
		{"blank before it", " \n" + batch(legacy(1, "ping", "x")), 200, batch(answer(1, ""))},
		{"initialize", batch(legacy(1, "initialize", "")), 200, batch(failure("1", -32600, "initialize must not be part of a batch"))},
		{"modern", batch(modern(1, "echo")), 200, batch(failure("1", -32600, "this protocol version has no batches"))},
	} {
		res, body := e.post(tt.body, sid, jsonOnly)
		require.Equal(t, tt.status, res.StatusCode, "%s: %s", tt.name, body)
		if tt.want == "" {
			require.Empty(t, body, tt.name)
			require.Empty(t, res.Header.Get("Content-Type"), tt.name)
		} else {
			require.JSONEq(t, tt.want, body, tt.name)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"), tt.name)
		}
		require.Empty(t, res.Header.Get("Mcp-Session-Id"), tt.name)

		// Only an admitted request makes an event stream.
		res, body = e.post(tt.body, sid)
		if tt.status == 200 {
			require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"), tt.name)
			require.Equal(t, event(strings.Trim(tt.want, "[]")), body, tt.name)
		} else if !strings.HasPrefix(tt.name, "cancelled") {
			require.Equal(t, tt.status, res.StatusCode, "%s: %s", tt.name, body)
		}
	}
	c := e.Conserved()
	require.EqualValues(t, 2, c.LimitsReached[limits.NameBatch])
}

// A batch without an admitted request is answered like a single rejected request.
func TestBatchWithoutAdmittedRequestIsRejected(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxInFlightTotal: 1, MaxQueue: -1}, streamable.Config{})
	sid := e.batching()
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", call(1, "wait"), sid)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	for _, accept := range []header{jsonOnly, "Accept: application/json, text/event-stream"} {
		res, body := e.post(batch(call(2, "echo"), call(3, "echo"), nothing), sid, accept)
		require.Equal(t, 429, res.StatusCode)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
		require.Equal(t, 2, strings.Count(body, `"limit":"max_queue"`), body)
		require.True(t, strings.HasPrefix(body, `[{"jsonrpc":"2.0","id":2,`), body)
	}
	// An id in flight in another exchange: the error may carry it.
	res, body := e.post(batch(call(1, "echo")), sid)
	require.Equal(t, 429, res.StatusCode, body) // no slot is the first check

	drained := make(chan error, 1)
	go func() { drained <- e.Core.Shutdown(context.Background()) }()
	for !e.Core.Draining() { //nolint:revive // a spin of microseconds: there is nothing to wait for
	}
	res, body = e.post(batch(call(2, "echo")), sid)
	require.Equal(t, 503, res.StatusCode)
	require.True(t, res.Close, "Connection: close")
	require.Contains(t, body, `"reason":"shutting_down"`)
	e.Release <- struct{}{}
	require.Equal(t, answer(1, "wait"), <-answered)
	require.NoError(t, <-drained)
}

// If some requests of a batch are admitted, a rejected one gets its error among the answers,
// and the status is a success.
func TestRejectedMemberOfABatchGetsItsError(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.batching()
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", call(9, "wait"), sid)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	res, body := e.post(batch(call(9, "echo"), call(1, "echo")), sid, jsonOnly)
	require.Equal(t, 200, res.StatusCode)
	require.Regexp(t, `^\[\{"jsonrpc":"2.0","id":9,.*"reason":"duplicate_id"`, body, "the refusal is the first")
	require.Contains(t, body, answer(1, "echo"))
	e.Release <- struct{}{}
	require.Equal(t, answer(9, "wait"), <-answered)
	e.Conserved()
}

// A member that its client cancels has no answer. If no member is left, the exchange ends
// without one.
func TestCancelledMemberOfABatchHasNoAnswer(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.batching()
	type result struct {
		status int
		body   string
	}
	begin := func(accept header) chan result {
		done := make(chan result, 1)
		req := e.request(t.Context(), "POST", batch(call(1, "wait"), call(2, "wait")), sid, accept)
		go func() {
			res, body := e.do(req)
			done <- result{res.StatusCode, body}
		}()
		<-e.Started
		<-e.Started
		return done
	}
	cancel := func(id int) {
		res, _ := e.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id), sid)
		require.Equal(t, 202, res.StatusCode)
		require.ErrorIs(t, <-e.Ended, mcp.ErrClientCancelled)
	}
	const both = "Accept: application/json, text/event-stream"
	for accept, want := range map[header]string{jsonOnly: batch(answer(2, "wait")), both: event(answer(2, "wait"))} {
		done := begin(accept)
		cancel(1)
		e.Release <- struct{}{}
		require.NoError(t, <-e.Ended)
		require.Equal(t, result{200, want}, <-done)
	}
	for accept, want := range map[header]result{jsonOnly: {202, ""}, both: {200, ""}} {
		done := begin(accept)
		cancel(2)
		cancel(1)
		require.Equal(t, want, <-done)
	}
	require.EqualValues(t, 6, dropped(e.Conserved(), mcp.DropCancelled))
}

// A lost exchange cancels nothing; its answers are dropped. The end of the session ends the
// exchange.
func TestDisconnectDoesNotCancelABatch(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		for _, accept := range []header{jsonOnly, "Accept: application/json, text/event-stream"} {
			e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
			sid := e.batching()
			<-e.left
			ctx, hangUp := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			req := e.request(ctx, "POST", batch(call(1, "wait"), call(2, "wait")), sid, accept)
			go func() {
				res, err := e.srv.Client().Do(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				failed <- err
			}()
			<-e.Started
			<-e.Started
			hangUp()
			require.ErrorIs(t, <-failed, context.Canceled)
			<-e.left
			require.Empty(t, e.Ended)
			for range 2 {
				e.Release <- struct{}{}
				require.NoError(t, <-e.Ended)
			}
			require.EqualValues(t, 2, dropped(e.Conserved(), mcp.DropStreamGone))
		}
	})
}

// The end of the session ends the exchange of a batch.
func TestDeleteEndsTheExchangeOfABatch(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.batching()
	answered := make(chan int, 1)
	req := e.request(t.Context(), "POST", batch(call(1, "wait"), call(2, "wait")), sid, jsonOnly)
	go func() {
		res, _ := e.do(req)
		answered <- res.StatusCode
	}()
	<-e.Started
	<-e.Started
	res, _ := e.do(e.request(t.Context(), "DELETE", "", sid))
	require.Equal(t, 204, res.StatusCode)
	require.Equal(t, 404, <-answered)
	for range 2 {
		require.ErrorIs(t, <-e.Ended, mcp.ErrSessionDeleted)
	}
	require.EqualValues(t, 2, dropped(e.Conserved(), mcp.DropSessionGone))
}

// One goroutine reads the batch and writes the answers. More rejections than the queue has
// room for must not block it.
func TestBatchLargerThanTheQueueIsAnswered(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxQueuedMessages: 1}, streamable.Config{})
	sid := e.batching()
	for _, accept := range []header{jsonOnly, "Accept: application/json, text/event-stream"} {
		_, body := e.post(batch(call(1, "echo"), call(1, "echo"), call(1, "echo"), `1`, `2`, call(2, "echo")), sid, accept)
		require.Equal(t, 2, strings.Count(body, "duplicate_id"), body)
		require.Equal(t, 2, strings.Count(body, "must be an object"), body)
		require.Equal(t, 2, strings.Count(body, `"result"`), body)
	}
	e.Conserved()
}
