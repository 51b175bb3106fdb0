package gosdk_test

import (
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// A client runs the example over stdio, in each era. The call is on the pages of the operator.
func TestExampleOverStdio(t *testing.T) {
	binary := adapttest.BuildExample(t)
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			program := exec.Command(binary)
			stderr, err := program.StderrPipe()
			require.NoError(t, err)
			session, err := newClient().Connect(t.Context(), &sdk.CommandTransport{Command: program},
				&sdk.ClientSessionOptions{ProtocolVersion: version})
			require.NoError(t, err)
			defer session.Close()
			result, err := call(t, session, "greet", map[string]any{"name": "Ada"})
			require.NoError(t, err)
			require.Equal(t, "Hello, Ada", result.Content[0].(*sdk.TextContent).Text)
			adapttest.Pages(t, stderr, version)
		})
	}
}
