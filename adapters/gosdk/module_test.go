package gosdk_test

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// What the README shows is in the example.
func TestReadme(t *testing.T) { adapttest.Shown(t, "README.md", "example/main.go") }

// Who wants telemetry does not have to link gRPC.
func TestLinksNoGRPC(t *testing.T) { adapttest.LinksNone(t, "google.golang.org/grpc") }
