package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScenarios(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenarios() {
		require.False(t, names[s.name()], "%s is there twice", s.name())
		names[s.name()] = true
		m := render(s)
		require.True(t, json.Valid(m.body), "%s: %.400s", s.name(), m.body)
		if s.kind == call {
			require.Len(t, m.body, s.size.bytes, s.name())
		}
	}
	require.True(t, names[headline], "%s is measured", headline)
}

func TestHTTPMessage(t *testing.T) {
	for _, tt := range []struct {
		scenario scenario
		session  string
		path     string
		want     http.Header
	}{
		{scenario{kind: call, size: small}, "", "/modern", http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}},
		{scenario{kind: call, size: small, token: true}, "", "/modern", http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}, "Authorization": {"Bearer a.b.c"}}},
		{scenario{kind: list}, "", "/modern", http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}}},
		{scenario{kind: call, size: small, legacy: true}, "s1", "/legacy", http.Header{
			"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": {"s1"}}},
	} {
		m := render(tt.scenario)
		if tt.scenario.token {
			m.token = "a.b.c"
		}
		request, id := m.http(tt.scenario, "127.0.0.1:1", tt.session)
		putID(id, firstID+23)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
		require.NoError(t, err)
		require.Equal(t, tt.path, r.URL.Path)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(string(m.body), "100000000", "100000023", 1), string(body))
		got := http.Header{}
		for k, v := range r.Header {
			if strings.HasPrefix(k, "Mcp-") || k == "Authorization" {
				got[k] = v
			}
		}
		require.Equal(t, tt.want, got)
	}
}

func TestCheck(t *testing.T) {
	const id = "100000001"
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + result + `}}` }
	event := func(data string) string { return "event: message\ndata: " + data + "\n\n" }
	step := event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
	said := func(s string) string { return answer(`"content":[{"type":"text","text":"` + s + `"}]`) }
	calls, lists, steps := scenario{kind: call}, scenario{kind: list, tools: 2}, scenario{kind: progress}
	for _, tt := range []struct {
		name     string
		scenario scenario
		message  message
		answer   string
		want     string // part of the error; empty if there is none
	}{
		{"right", calls, message{text: "hi", exact: true}, said("hi") + "\n", ""},
		{"right, as an event", calls, message{text: "hi", exact: true}, event(said("hi")), ""},
		{"another text", calls, message{text: "ho", exact: true}, said("hi"), "does not have the text"},
		{"no content", calls, message{}, answer(`"content":[]`), "does not have the text"},
		{"another id", calls, message{text: "hi", exact: true}, strings.Replace(said("hi"), "01,", "02,", 1), "has the id 100000002"},
		{"another id, canned", calls, message{text: "hi"}, strings.Replace(said("hi"), "01,", "02,", 1), ""},
		{"error", calls, message{}, `{"jsonrpc":"2.0","id":100000001,"error":{"code":-32603}}`, "is an error"},
		{"tool error", calls, message{text: "hi"}, answer(`"isError":true,"content":[{"text":"hi"}]`), "is an error"},
		{"nothing", calls, message{}, "", "not JSON"},
		{"cut off", calls, message{}, said("hi")[:30], "not JSON"},
		{"list", lists, message{exact: true}, answer(`"tools":[{"name":"a"},{"name":"b"}]`), ""},
		{"short list", lists, message{exact: true}, answer(`"tools":[{"name":"a"}]`), "has 1 tools, not 2"},
		{"progress", steps, message{exact: true}, strings.Repeat(step, 10) + event(said("done")), ""},
		{"lost progress", steps, message{exact: true}, strings.Repeat(step, 9) + event(said("done")), "9 notifications"},
		{"lost progress, known", steps, message{exact: true, lossy: true}, strings.Repeat(step, 9) + event(said("done")), ""},
		{"no progress", steps, message{exact: true, lossy: true}, event(said("done")), "0 notifications"},
		{"progress twice", steps, message{exact: true, lossy: true}, strings.Repeat(step, 11) + event(said("done")), "11 notifications"},
		{"no end", steps, message{exact: true}, strings.Repeat(step, 10), "has the id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.message.check(tt.scenario, []byte(id), []byte(tt.answer))
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}
