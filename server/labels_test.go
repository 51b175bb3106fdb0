package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Labels have the names of registered prompts, but no names from the wire and no URIs. The code
// of a missing resource is the code that was sent.
func TestFeatureLabels(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	srv := newServer(t, server.WithTelemetry(tel))
	server.AddPrompt(srv, server.Prompt{Name: "registered", Arguments: []server.PromptArgument{
		{Name: "asked for", Complete: server.CompleteFrom("value")}}}, say(""))
	server.AddStaticResource(srv, server.Resource{URI: "x:direct", Name: "title"}, "")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:/{id}", Name: "title"}, echoVars)
	p := oldPipe(t, srv, mcp.Version20251125)
	p.ask(modern(1, "prompts/get", `"name":"registered"`))
	p.ask(modern(1, "prompts/get", `"name":"unregistered"`))
	p.ask(modern(1, "completion/complete", completion(promptRef("registered"), argument("asked for", "v"))))
	for _, of := range []string{"x:direct", "x:/1", "x:missing"} {
		p.ask(modern(1, "resources/read", uri(of)))
		p.ask(legacy(1, "resources/read", uri(of)))
	}
	require.NoError(t, p.hangUp())

	w := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	metrics := w.Body.String()
	for _, foreign := range []string{"unregistered", "x:", "direct", "missing", "title", "asked for", "{id}"} {
		require.NotContains(t, metrics, `"`+foreign)
	}
	count := func(parts ...string) (n int) {
		for line := range strings.Lines(metrics) {
			if !strings.HasPrefix(line, "mcp_server_operation_duration_seconds_count{") {
				continue
			}
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, count(`mcp_method_name="prompts/get"`, `gen_ai_prompt_name="registered"`, `rpc_response_status_code=""`))
	require.Equal(t, 1, count(`mcp_method_name="prompts/get"`, `gen_ai_prompt_name=""`, `rpc_response_status_code="-32602"`))
	require.Equal(t, 1, count(`mcp_method_name="completion/complete"`, `gen_ai_prompt_name=""`))
	read := `mcp_method_name="resources/read"`
	require.Equal(t, 4, count(read, `gen_ai_tool_name=""`, `gen_ai_prompt_name=""`), "two revisions, with and without an error")
	require.Equal(t, 1, count(read, `rpc_response_status_code="-32602"`, `mcp_protocol_version="2026-07-28"`, `error_type=""`))
	require.Equal(t, 1, count(read, `rpc_response_status_code="-32002"`, `mcp_protocol_version="2025-11-25"`, `error_type=""`))
}
