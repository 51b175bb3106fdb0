package servers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func startComplete(t *testing.T) (*complete, string) {
	s, err := newCompleteEcho(3)
	require.NoError(t, err)
	listener := httptest.NewServer(s.Modern)
	t.Cleanup(listener.Close)
	return s.Modern.(*complete), listener.URL
}

// What Vitrine refuses, the server by hand refuses, too: otherwise the comparison would be unfair to Vitrine.
func TestCompleteServerRefuses(t *testing.T) {
	_, url := startComplete(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		old, new string // in the body
		change   func(*http.Request)
		want     string
	}{
		"another method":           {change: func(r *http.Request) { r.Method = http.MethodPut }, want: "only POST"},
		"content that is no JSON":  {change: header("Content-Type", "text/plain"), want: "not JSON"},
		"no event streams":         {change: header("Accept", "application/json"), want: "must accept"},
		"another host":             {change: func(r *http.Request) { r.Host = "example.com:80" }, want: "another host"},
		"a page":                   {change: header("Origin", "http://example.com"), want: "no pages"},
		"a version that is no one": {change: header("Mcp-Protocol-Version", "1999-01-01"), want: "version"},
		"another version":          {change: header("Mcp-Protocol-Version", "2025-11-25"), want: "other versions"},
		"another method in header": {change: header("Mcp-Method", "tools/list"), want: "other methods"},
		"another tool in header":   {change: header("Mcp-Name", "steps"), want: "other tools"},
		"no client":                {old: `clientInfo"`, new: `x"`, want: "describe itself"},
		"no JSON-RPC":              {old: `"2.0"`, new: `"1.0"`, want: "JSON-RPC"},
		"an id that is a list":     {old: `"id":1`, new: `"id":[]`, want: "neither"},
		"no id":                    {old: `"id":1,`, want: "only notifications"},
		"a name twice":             {old: `"text":"x"`, new: `"text":"x","text":"y"`, want: "duplicate"},
		"an unknown argument":      {old: `"text":"x"`, new: `"text":"x","y":1`, want: "unknown"},
		"a missing argument":       {old: `"text":"x"`, want: "missing"},
		"a number for a text":      {old: `"x"`, new: `1`, want: "cannot unmarshal"},
		"not UTF-8":                {old: `"x"`, new: "\"\xff\"", want: "UTF-8"},
		"no session":               {old: promisedMeta + ",", want: "no such session"},
		"an unknown session":       {change: header("Mcp-Session-Id", "x"), want: "no such session"},
	} {
		t.Run(name, func(t *testing.T) {
			body := promisedCall
			if tt.old != "" {
				require.Contains(t, body, tt.old)
				body = strings.Replace(body, tt.old, tt.new, 1)
			}
			r := promised(t, url, body)
			if tt.change != nil {
				tt.change(r)
			}
			status, said, _ := answered(t, r)
			require.Contains(t, said, tt.want)
			require.Equal(t, 4, status/100)
		})
	}
}

// A legacy client has a session from initialize to DELETE.
func TestCompleteServerKeepsSessions(t *testing.T) {
	_, url := startComplete(t)
	legacy := func(body, session string) *http.Request {
		r := promised(t, url, body)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		r.Header.Set("Mcp-Session-Id", session)
		return r
	}
	_, _, head := answered(t, legacy(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, ""))
	session := head.Get("Mcp-Session-Id")
	require.NotEmpty(t, session)
	status, _, _ := answered(t, legacy(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session))
	require.Equal(t, http.StatusAccepted, status)
	call := legacy(strings.Replace(promisedCall, promisedMeta+",", "", 1), session)
	_, body, _ := answered(t, call)
	require.Contains(t, body, `"text":"x"`)
	_, body, _ = answered(t, legacy(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, session))
	require.Contains(t, body, `{"tools":[{"name":"echo"`)
	end := legacy("", session)
	end.Method = http.MethodDelete
	status, _, _ = answered(t, end)
	require.Equal(t, http.StatusNoContent, status)
	status, _, _ = answered(t, legacy(strings.Replace(promisedCall, promisedMeta+",", "", 1), session))
	require.Equal(t, http.StatusNotFound, status)
}

// One caller has no more than its share of the slots.
func TestCompleteServerSharesSlots(t *testing.T) {
	c, url := startComplete(t)
	c.callers["127.0.0.1"] = callersShare
	status, _, _ := answered(t, promised(t, url, promisedCall))
	require.Equal(t, http.StatusTooManyRequests, status)
	c.give("127.0.0.1")
	status, _, _ = answered(t, promised(t, url, promisedCall))
	require.Equal(t, http.StatusOK, status)
}

// Sessions end that are too many, or too old.
func TestKeptSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keptSessions
		first, second := k.open(), k.open()
		require.True(t, k.use(first))
		for range mostSessions - 1 {
			k.open()
		}
		require.True(t, k.use(first), "the second one was used longest ago")
		require.False(t, k.use(second))
		require.Len(t, k.byID, mostSessions)
		time.Sleep(sessionIdle + time.Second)
		last := k.open()
		require.Len(t, k.byID, 1)
		k.end(last)
		k.end(last)
		require.Zero(t, k.recent.Len())
	})
}
