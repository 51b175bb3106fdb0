package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"

	// firstID has as many digits as all the ids after it.
	firstID = 100_000_000
)

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + legacyVersion + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	modernMeta  = `"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// A message is a request in its encoded form.
type message struct {
	body   []byte
	method string
	name   string // of the tool, if it is a call
	text   string // its argument
	token  string // the access token; empty if it has none
	// exact is true if the answer must have the id of the request, not a fixed one.
	exact bool
	// lossy is true if some progress notifications may be missing.
	lossy bool
}

// render makes the message of a scenario.
func render(s scenario) message {
	m := message{method: "tools/call", name: servers.Echo, exact: true}
	switch s.kind {
	case list:
		m.method, m.name = "tools/list", ""
	case progress:
		m.name = servers.Steps
	case call:
		m.text = filler(s.size.bytes - len(m.render(s)))
		if s.size.plain {
			m.text = strings.Repeat("x", s.size.bytes)
		}
	}
	m.body = m.render(s)
	return m
}

func (m *message) render(s scenario) []byte {
	var meta, params []string
	if !s.legacy {
		meta = []string{modernMeta}
	}
	if s.kind == progress {
		meta = append(meta, `"progressToken":"t"`)
	}
	if len(meta) > 0 {
		params = append(params, `"_meta":{`+strings.Join(meta, ",")+`}`)
	}
	switch m.name {
	case servers.Echo:
		text, _ := json.Marshal(m.text) // a string can be encoded
		params = append(params, `"name":"`+m.name+`","arguments":{"text":`+string(text)+`}`)
	case servers.Steps:
		params = append(params, `"name":"`+m.name+`","arguments":{}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, firstID, m.method, strings.Join(params, ","))
}

// filler returns text of n bytes in JSON: lines with quotes, as tools return them.
func filler(n int) string {
	const line = "a line of what a tool says: 20 °C, \"light rain\", 4 m/s from the west\n"
	quoted, _ := json.Marshal(line)
	width := len(quoted) - len(`""`)
	return strings.Repeat(line, max(0, n)/width) + strings.Repeat("x", max(0, n)%width)
}

// http returns the message as an HTTP request, and the slice of it that holds the id. session
// may be empty.
func (m *message) http(s scenario, addr, session string) (request []byte, id []byte) {
	var b bytes.Buffer
	version, path := modernVersion, servers.Modern
	if s.legacy {
		version, path = legacyVersion, servers.Legacy
	}
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n", path, addr)
	fmt.Fprintf(&b, "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: %s\r\n", version)
	if !s.legacy {
		fmt.Fprintf(&b, "Mcp-Method: %s\r\n", m.method)
		if m.name != "" {
			fmt.Fprintf(&b, "Mcp-Name: %s\r\n", m.name)
		}
	}
	if m.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", m.token)
	}
	if session != "" {
		fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\n", session)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(m.body))
	b.Write(m.body)
	request = b.Bytes()
	return request, servers.ID(request)
}

// check returns what is wrong with an answer, which is one JSON value or an event stream that
// ends with it.
func (m *message) check(s scenario, id []byte, answer []byte) error {
	if err := m.wrong(s, id, answer); err != nil {
		return fmt.Errorf("%w: %.300q", err, answer)
	}
	return nil
}

func (m *message) wrong(s scenario, id []byte, answer []byte) error {
	messages := payloads(answer)
	var got struct {
		ID     json.RawMessage
		Error  json.RawMessage
		Result struct {
			IsError bool
			Content []struct{ Text string }
			Tools   []struct{ Name string }
		}
	}
	if err := json.Unmarshal(messages[len(messages)-1], &got); err != nil {
		return fmt.Errorf("the answer is not JSON (%w)", err)
	}
	notes := bytes.Count(bytes.Join(messages[:len(messages)-1], nil), []byte(`"notifications/progress"`))
	want := m.text
	switch {
	case got.Error != nil || got.Result.IsError:
		return errors.New("the answer is an error")
	case m.exact && !bytes.Equal(got.ID, id):
		return fmt.Errorf("the answer has the id %s, not %s", got.ID, id)
	case s.kind == list && len(got.Result.Tools) != s.tools:
		return fmt.Errorf("the answer has %d tools, not %d", len(got.Result.Tools), s.tools)
	case s.kind == list:
		return nil
	case s.kind == progress && notes != servers.StepCount && !(m.lossy && 0 < notes && notes < servers.StepCount):
		return fmt.Errorf("there are %d notifications of progress, not %d", notes, servers.StepCount)
	case s.kind == progress:
		want = "done"
	}
	if c := got.Result.Content; len(c) != 1 || c[0].Text != want {
		return errors.New("the answer does not have the text")
	}
	return nil
}

// payloads returns the messages of an answer, at least one.
func payloads(answer []byte) (messages [][]byte) {
	if trimmed := bytes.TrimSpace(answer); len(trimmed) > 0 && trimmed[0] == '{' {
		return [][]byte{trimmed}
	}
	for line := range bytes.Lines(answer) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			messages = append(messages, bytes.TrimSpace(data))
		}
	}
	if len(messages) == 0 {
		return [][]byte{nil}
	}
	return messages
}
