package mcpgo_test

import (
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// A client runs the example over stdio, in each era. The call is on the pages of the operator.
func TestExampleOverStdio(t *testing.T) {
	binary := adapttest.BuildExample(t)
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t) // for its client
			program := transport.NewStdio(binary, nil)
			c := w.dial(program, version)
			result, err := call(t, c, "greet", map[string]any{"name": "Ada"})
			require.NoError(t, err)
			require.Equal(t, "Hello, Ada", result.Content[0].(mcp.TextContent).Text)
			adapttest.Pages(t, program.Stderr(), version)
		})
	}
}
