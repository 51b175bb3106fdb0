package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"0"}}`

// callFrame is a tools/call. id and arguments are JSON.
func callFrame(id, tool, arguments string, modern bool) string {
	meta := `"_meta":{"progressToken":"t"}`
	if modern {
		meta = strings.Replace(modernMeta, "{", `{"progressToken":"t",`, 1)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,%s}}`,
		id, tool, arguments, meta)
}

func cancelFrame(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"soak"}}`, id)
}

const (
	initializeFrame = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"roots":{}},"clientInfo":{"name":"soak","version":"0"}}}`
	initializedFrame = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// A message is one that the server has sent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result *struct {
		Content []struct{ Text string }
		IsError bool `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code int
		Data struct{ Reason string }
	} `json:"error"`
}

// text returns the text of a tool's result, or "".
func (m *message) text() string {
	if m.Result == nil || len(m.Result.Content) == 0 || m.Result.IsError {
		return ""
	}
	return m.Result.Content[0].Text
}

func (m *message) reason() string {
	if m.Error == nil {
		return ""
	}
	return m.Error.Data.Reason
}

// refused reports whether the server has declined a request because it is busy, or
// because its deadline has passed while it waited.
func (m *message) refused() bool {
	switch m.reason() {
	case "overload", "deadline", "shutting_down", "server_shutdown", "transport_close":
		return true
	}
	return false
}

// nap sleeps for a random time below d.
func nap(d time.Duration) { time.Sleep(rand.N(d)) }

// garbage is a frame that is no message, on one line.
func garbage() string {
	all := []string{
		`{"jsonrpc":"2.0","id":1,"method":`, `[]`, `7`, `"`, `{"jsonrpc":"1.0","id":5,"method":"ping"}`, `{}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "\x00\x01", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"x\"}",
		`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		strings.Repeat("[", 500), `{"jsonrpc":"2.0","id":"` + strings.Repeat("z", patient.MaxFrameBytes) + `","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":99,"error":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}`,
	}
	return all[rand.IntN(len(all))]
}
