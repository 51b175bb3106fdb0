package observe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// The pages and the metrics have every state that the core knows, and no others.
func TestStates(t *testing.T) { require.Equal(t, session.States(), report.States()) }
