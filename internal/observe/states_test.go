package observe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// The pages and the metrics have exactly the states of the core.
func TestStates(t *testing.T) { require.Equal(t, session.States(), report.States()) }
