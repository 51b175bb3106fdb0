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

// A server that checked less than its comment says would make the comparison unfair to Vitrine.
func TestCompleteServerRefuses(t *testing.T) {
	c, url := startComplete(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		old, new string // in the body
		change   func(*http.Request)
		want     string
	}{
		"another HTTP method":      {change: func(r *http.Request) { r.Method = http.MethodPut }, want: "only POST"},
		"DELETE without a session": {change: func(r *http.Request) { r.Method = http.MethodDelete }, want: "only POST"},
		"another content":          {change: header("Content-Type", "text/plain"), want: "the content is not JSON"},
		"a client of events only":  {change: header("Accept", "text/event-stream"), want: "does not accept JSON"},
		"another host":             {change: func(r *http.Request) { r.Host = "example.com:80" }, want: "another host"},
		"a web page":               {change: header("Origin", "http://example.com"), want: "web pages"},
		"a long message":           {old: `"x"`, new: `"` + strings.Repeat("x", completeLongest) + `"`, want: "above 4194304 bytes"},
		"an unknown version":       {change: header("Mcp-Protocol-Version", "1999-01-01"), want: "version of the protocol is unknown"},
		"another version":          {change: header("Mcp-Protocol-Version", completeLegacy), want: "the same version"},
		"a version in header only": {old: promisedMeta + ",", want: "does not say its version"},
		"another method in header": {change: header("Mcp-Method", "tools/list"), want: "other methods"},
		"another tool in header":   {change: header("Mcp-Name", "steps"), want: "other tools"},
		"no client":                {old: `clientInfo"`, new: `x"`, want: "describe itself"},
		"no capabilities":          {old: `clientCapabilities"`, new: `x"`, want: "capabilities"},
		"no JSON-RPC":              {old: `"2.0"`, new: `"1.0"`, want: "JSON-RPC"},
		"a list as id":             {old: `"id":1`, new: `"id":[]`, want: "neither"},
		"no id":                    {old: `"id":1,`, want: "only notifications"},
		"a notification with id":   {old: `"tools/call"`, new: `"notifications/initialized"`, want: "only notifications"},
		"an unknown method":        {old: `"tools/call"`, new: `"echo"`, change: header("Mcp-Method", "echo"), want: "no such method or tool: echo"},
		"an unknown tool":          {old: `"echo"`, new: `"tools/list"`, change: header("Mcp-Name", "tools/list"), want: "no such method or tool: tools/list"},
		"a name twice":             {old: `"text":"x"`, new: `"text":"x","text":"y"`, want: "duplicate"},
		"an unknown argument":      {old: `"text":"x"`, new: `"text":"x","y":1`, want: "unknown"},
		"a missing argument":       {old: `"text":"x"`, want: errMissing.Error()},
		"null for a text":          {old: `"x"`, new: `null`, want: errMissing.Error()},
		"a number for a text":      {old: `"x"`, new: `1`, want: "unmarshal JSON number"},
		"not UTF-8":                {old: `"x"`, new: "\"\xff\"", want: "UTF-8"},
		"an unknown session":       {change: header("Mcp-Session-Id", "x"), want: "no such session"},
	} {
		t.Run(name, func(t *testing.T) {
			body := promisedCall
			if tt.old != "" {
				require.Contains(t, body, tt.old)
				body = strings.Replace(body, tt.old, tt.new, 1)
			}
			r := post(t, url, body, modernHeaders)
			if tt.change != nil {
				tt.change(r)
			}
			status, said, _ := do(t, r)
			require.Contains(t, said, tt.want)
			require.Equal(t, 4, status/100)
		})
	}
	require.Empty(t, c.callers)
	require.Empty(t, c.slots)
}

// A legacy client has a session from initialize to DELETE.
func TestCompleteServerKeepsSessions(t *testing.T) {
	_, url := startComplete(t)
	legacy := func(body, session string) *http.Request {
		return post(t, url, body, map[string]string{"Mcp-Protocol-Version": completeLegacy, "Mcp-Session-Id": session})
	}
	call := strings.Replace(promisedCall, promisedMeta+",", "", 1)
	status, said, _ := do(t, legacy(call, ""))
	require.Equal(t, http.StatusNotFound, status, said)
	_, said, head := do(t, legacy(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, ""))
	require.Contains(t, said, `"protocolVersion":"2025-06-18"`)
	session := head.Get("Mcp-Session-Id")
	require.NotEmpty(t, session)
	status, _, _ = do(t, legacy(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session))
	require.Equal(t, http.StatusAccepted, status)
	_, said, _ = do(t, legacy(call, session))
	require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`, said)
	_, said, _ = do(t, legacy(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, session))
	require.Contains(t, said, `{"tools":[{"name":"echo"`)
	end := legacy("", session)
	end.Method = http.MethodDelete
	status, _, _ = do(t, end)
	require.Equal(t, http.StatusNoContent, status)
	status, _, _ = do(t, legacy(call, session))
	require.Equal(t, http.StatusNotFound, status)
}

// One caller has no more than its share of the slots.
func TestCompleteServerSharesSlots(t *testing.T) {
	c, url := startComplete(t)
	c.callers["127.0.0.1"] = callersShare
	status, _, _ := do(t, post(t, url, promisedCall, modernHeaders))
	require.Equal(t, http.StatusTooManyRequests, status)
	c.give("127.0.0.1")
	status, _, _ = do(t, post(t, url, promisedCall, modernHeaders))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, callersShare-1, c.callers["127.0.0.1"])
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
		require.True(t, k.use(first), "nobody has used the second one for longer")
		require.False(t, k.use(second))
		require.Len(t, k.byID, mostSessions)
		time.Sleep(sessionIdle + time.Second)
		require.False(t, k.use(first))
		last := k.open()
		require.Len(t, k.byID, 1)
		k.end(last)
		k.end(last)
		require.Zero(t, k.recent.Len())
	})
}

// The arguments of the shop are checked through and through.
func TestCheckoutChecksItsItems(t *testing.T) {
	for arguments, want := range map[string]bool{
		`{"user":"u","items":[{"product":1,"quantity":2}]}`: true,
		`{"user":"u","items":[]}`:                           true,
		`{"user":"u","items":[{"product":1}]}`:              false,
		`{"user":"u","items":[{"quantity":1}]}`:             false,
		`{"user":"u","items":null}`:                         false,
		`{"items":[]}`:                                      false,
	} {
		_, err := checkedInput([]byte(arguments), (*checkedCheckout).whole)
		require.Equal(t, want, err == nil, arguments)
	}
}
