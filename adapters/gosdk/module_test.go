package gosdk_test

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// The code in the README is that of the example.
func TestReadme(t *testing.T) { adapttest.Shown(t, "README.md", "example/main.go") }

// A program with telemetry does not have to link gRPC.
func TestLinksNoGRPC(t *testing.T) { adapttest.LinksNone(t, "google.golang.org/grpc") }
