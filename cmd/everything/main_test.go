package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A client posts modern requests.
type client struct {
	*testing.T
	url string
}

func newClient(t *testing.T) client {
	ts := httptest.NewServer(plainServer().Handler())
	t.Cleanup(ts.Close)
	return client{t, ts.URL}
}

// plainServer is the server of a process without settings.
func plainServer() *server.Server { return serverWith(access{}) }

func serverWith(how access) *server.Server {
	srv, err := newServer(func(opts ...server.Option) (*server.Server, error) { return server.TryNew("everything", "1", opts...) }, how)
	if err != nil {
		panic(err)
	}
	return srv
}

type reply struct {
	Error *struct {
		Code    int
		Message string
	}
	Result struct {
		IsError bool
		Content []struct {
			Type, Text, Data, MIMEType string
			Resource                   struct{ URI, Text string }
		}
		StructuredContent json.RawMessage
		Tools             []struct {
			Name, Description string
			InputSchema       json.RawMessage
		}
	}
}

func (c client) post(method, params string, headers ...string) (r reply) {
	c.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
	req, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	require.NoError(c, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(c, err)
	defer resp.Body.Close()
	require.NoError(c, json.NewDecoder(resp.Body).Decode(&r))
	return r
}

func (c client) call(tool, arguments string, headers ...string) reply {
	c.Helper()
	return c.post("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, arguments), append(headers, "Mcp-Name", tool)...)
}

// The conformance suite calls the first tool in the list with {}.
func TestFirstToolTakesNoArguments(t *testing.T) {
	c := newClient(t)
	tools := c.post("tools/list", "").Result.Tools
	require.Len(t, tools, len(fixtures)+2) // with scoped and whoami
	for _, tool := range tools {
		assert.NotEmpty(t, tool.Description, tool.Name)
		assert.NotEmpty(t, tool.InputSchema, tool.Name)
		if tool.Name == "json_schema_2020_12_tool" {
			assert.JSONEq(t, contactSchema, string(tool.InputSchema))
		}
	}
	first := c.call(tools[0].Name, "{}")
	assert.Nil(t, first.Error)
	assert.False(t, first.Result.IsError)
}

func TestFixtures(t *testing.T) {
	c := newClient(t)
	for _, f := range []struct {
		tool, arguments string
		types           string // of the content blocks
		isError         bool
	}{
		{"test_simple_text", `{}`, "text", false},
		{"test_image_content", `{}`, "image", false},
		{"test_audio_content", `{}`, "audio", false},
		{"test_embedded_resource", `{}`, "resource", false},
		{"test_multiple_content_types", `{}`, "text image resource", false},
		{"test_error_handling", `{}`, "text", true},
		{"test_tool_with_progress", `{}`, "text", false},
		{"json_schema_2020_12_tool", `{"name":"Ada","reach":"mail","mail":"a@b.example","address":{"city":"London"}}`, "text", false},
		{"json_schema_2020_12_tool", `{"reach":"mail","address":{"city":"London"}}`, "text", true}, // then: mail
		{"json_schema_2020_12_tool", `{"name":"Ada"}`, "text", true},                               // anyOf
		{"test_x_mcp_header", `{}`, "text", false},
		{"echo", `{"text":"hello"}`, "text", false},
		{"sleep", `{"ms":1}`, "text", false},
		{"sleep", `{"ms":1,"stubborn":true}`, "text", false},
		{"sleep", `{"ms":600001}`, "text", true},
		{"progress", `{"steps":3}`, "text", false},
		{"progress", `{"steps":0}`, "text", true},
		{"big", `{"bytes":100000}`, "text", false},
		{"big", `{"bytes":-1}`, "text", true},
		{"test_reconnection", `{}`, "text", false}, // a modern client has nothing to come back to
	} {
		r := c.call(f.tool, f.arguments)
		require.Nil(t, r.Error, "%s: %+v", f.tool, r.Error)
		var types []string
		for _, block := range r.Result.Content {
			types = append(types, block.Type)
		}
		assert.Equal(t, f.types, strings.Join(types, " "), f.tool)
		assert.Equal(t, f.isError, r.Result.IsError, "%s %s", f.tool, f.arguments)
	}
	assert.JSONEq(t, `{"text":"hello"}`, string(c.call("echo", `{"text":"hello"}`).Result.StructuredContent))
	assert.Len(t, c.call("big", `{"bytes":100000}`).Result.Content[0].Text, 100000)
}

func TestPanicIsAnInternalError(t *testing.T) {
	c := newClient(t)
	r := c.call("panic", "{}")
	require.NotNil(t, r.Error)
	assert.Equal(t, -32603, r.Error.Code)
	assert.Nil(t, c.call("test_simple_text", "{}").Error, "the server lives on")
}
