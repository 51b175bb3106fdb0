package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A template with a character that is not ASCII serves the URIs that RFC 6570 makes of it.
func TestTemplateServesEscapedLiterals(t *testing.T) {
	srv := newServer(t)
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://café/{id}", Name: "café"},
		func(_ context.Context, _ *server.Call, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: "id " + vars["id"]}}, nil
		})
	p := dial(t, srv)
	for _, uri := range []string{"test://caf%C3%A9/7", "test://café/7"} {
		require.Contains(t, p.ask(modern(1, "resources/read", `"uri":"`+uri+`"`)), `"text":"id 7"`)
	}
}
