package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// heldBytes returns how much of max_argument_bytes_total is taken.
func heldBytes(t *testing.T, tel *telemetry.Telemetry) int {
	t.Helper()
	_, rest, found := strings.Cut(scrape(t, tel), `vitrine_share_used{limit="max_argument_bytes_total"} `)
	require.True(t, found)
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(value, 64)
	require.NoError(t, err)
	return int(n)
}

// objects returns a list of so many objects, each of which takes 20 times its text as a Go value.
func objects(n int) string { return "[" + strings.Repeat(`{"name":1},`, n) + "1]" }

// The Go values of arguments count until their handlers have returned, and a call for whose value there is no room is refused
// before its handler runs.
func TestValuesOfArgumentsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
		finish, began := make(chan struct{}), 0
		server.AddTool(srv, server.Tool{Name: "keep"}, func(_ context.Context, _ *server.Call, in struct {
			Any any `json:"any"`
		}) (string, error) {
			began++
			<-finish
			return "kept", nil
		})
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("keep", `{"any":`+objects(1000)+`}`)))
		synctest.Wait()
		one := heldBytes(t, tel)
		require.InDelta(t, 400_000, one, 100_000, "1000 maps")
		p.send(modern(2, "tools/call", call("keep", `{"any":[1,2,3]}`)))
		synctest.Wait()
		require.Equal(t, one, heldBytes(t, tel), "a small value does not count")

		refused := p.ask(modern(3, "tools/call", call("keep", `{"any":`+objects(1500)+`}`)))
		require.Contains(t, refused, `"reason":"overload"`)
		require.Contains(t, refused, `"limit":"max_argument_bytes_total"`)
		require.Equal(t, 2, began)
		require.Contains(t, scrape(t, tel), `vitrine_limit_reached_total{limit="max_argument_bytes_total"} 1`)
		close(finish)
		synctest.Wait()
		require.Zero(t, heldBytes(t, tel))
		require.Contains(t, p.ask(modern(4, "tools/call", call("keep", `{"any":`+objects(1000)+`}`))), "kept")
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// The requests of a batch, which came as one message, have together no more than one request may have, however short they run.
func TestRequestsOfABatchShareTheirValues(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytes: 1 << 20}))
	server.AddTool(srv, server.Tool{Name: "keep"}, func(context.Context, *server.Call, struct {
		Any any `json:"any"`
	}) (string, error) {
		return "kept", nil
	})
	p := oldPipe(t, srv, mcp.Version20250326)
	batch := func(calls int) (answer string) {
		all := make([]string, calls)
		for i := range all {
			all[i] = legacy(i, "tools/call", call("keep", `{"any":`+objects(100)+`}`)) // takes 40,000 bytes as a Go value
		}
		small := legacy(calls, "tools/call", call("keep", `{"any":[1,2,3]}`))
		all = slices.Insert(all, calls-1, small) // not the last one, whose handler may run first
		return p.ask("[" + strings.Join(all, ",") + "]")
	}
	for range 3 {
		require.Equal(t, 16, strings.Count(batch(15), `"kept"`))
	}
	require.NotContains(t, scrape(t, tel), `vitrine_limit_reached_total{limit="max_argument_bytes"} 1`)
	answer := batch(50)
	require.Regexp(t, `"id":50,"result"`, answer, "what was refused does not count, so that a small value has room")
	kept := strings.Count(answer, `"kept"`) - 1
	require.InDelta(t, 25, kept, 8)
	require.Equal(t, 50-kept, strings.Count(answer, "all that max_argument_bytes allows for one message"))
	require.Equal(t, 50-kept, strings.Count(answer, `"limit":"max_argument_bytes"`))
	require.Contains(t, scrape(t, tel), fmt.Sprintf(`vitrine_limit_reached_total{limit="max_argument_bytes"} %d`, 50-kept))
	require.NoError(t, srv.Shutdown(t.Context()))
}

// A value for which there is never room is an error that says so, and not an overload.
func TestValueThatIsLargerThanItsRoom(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
	server.AddTool(srv, server.Tool{Name: "keep"}, func(context.Context, *server.Call, struct {
		Any any `json:"any"`
	}) (string, error) {
		return "kept", nil
	})
	answer := dial(t, srv).ask(modern(1, "tools/call", call("keep", `{"any":`+objects(3000)+`}`)))
	require.Contains(t, answer, "all that max_argument_bytes_total allows")
	require.Contains(t, answer, `"code":-32602`)
}

// What a prompt, a completion and a notification get counts as well.
func TestOtherValuesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel))
		var counted []int
		server.AddPrompt(srv, server.Prompt{Name: "ask", Arguments: []server.PromptArgument{{Name: "a", Complete: func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
			counted = append(counted, heldBytes(t, tel))
			return nil, nil
		}}}}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			counted = append(counted, heldBytes(t, tel))
			return mcp.PromptText("asked"), nil
		})
		server.AddNotification(srv, "notifications/example/seen", "", func(context.Context, *server.Notice, struct {
			Any any `json:"any"`
		}) {
			counted = append(counted, heldBytes(t, tel))
		})
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, `"name %d":"x",`, i)
		}
		many := "{" + b.String() + `"a":"x"}`
		p := dial(t, srv)
		require.Contains(t, p.ask(modern(1, "prompts/get", `"name":"ask","arguments":`+many)), "asked")
		p.ask(modern(2, "completion/complete", `"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""},"context":{"arguments":`+many+`}`))
		p.send(`{"jsonrpc":"2.0","method":"notifications/example/seen","params":{"any":` + objects(300) + `}}`)
		synctest.Wait()
		require.Len(t, counted, 3)
		for i, n := range counted {
			require.Greater(t, n, 15_000, "%d", i)
		}
		require.Zero(t, heldBytes(t, tel))
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// Over HTTP the refusal has its status and says when to come back.
func TestRefusalOfAValueOverHTTP(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
	finish := make(chan struct{})
	began := make(chan struct{}, 2)
	server.AddTool(srv, server.Tool{Name: "keep"}, func(context.Context, *server.Call, struct {
		Any any `json:"any"`
	}) (string, error) {
		began <- struct{}{}
		<-finish
		return "kept", nil
	})
	post := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(modern(1, "tools/call", call("keep", `{"any":`+objects(1500)+`}`))))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "keep"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, r)
		return w
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- post() }()
	<-began
	refused := post()
	require.Equal(t, http.StatusTooManyRequests, refused.Code, refused.Body)
	require.Equal(t, "1", refused.Header().Get("Retry-After"))
	close(finish)
	require.Equal(t, http.StatusOK, (<-first).Code)
}

// A moody value is not decoded.
type moody struct{}

func (*moody) UnmarshalJSON([]byte) error { panic("not today") }

// What a value was charged is given back if its type panics, and if it has faults.
func TestValuesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel))
		server.AddTool(srv, server.Tool{Name: "panics", InputSchema: []byte(`{"type":"object","properties":{"value":{}}}`)},
			func(context.Context, *server.Call, struct {
				Value moody `json:"value"`
			}) (string, error) {
				return "", nil
			})
		server.AddTool(srv, server.Tool{Name: "numbers"}, func(context.Context, *server.Call, struct {
			Any  any `json:"any"`
			Most int `json:"most" maximum:"10"`
		}) (string, error) {
			return "counted", nil
		})
		p := dial(t, srv)
		require.Contains(t, p.ask(modern(1, "tools/call", call("panics", `{"value":`+objects(1000)+`}`))), "internal error")
		require.Contains(t, p.ask(modern(2, "tools/call", call("numbers", `{"any":`+objects(1000)+`,"most":11}`))), "most")
		require.Contains(t, p.ask(modern(3, "tools/call", call("numbers", `{"any":`+objects(1000)+`,"most":10}`))), "counted")
		synctest.Wait()
		require.Zero(t, heldBytes(t, tel))
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}
