package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(clock string) time.Time {
	t, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		panic(err)
	}
	return t.AddDate(2026, 2, 3)
}

// A line says with which time it is compared. Of two windows that were asked for, the head says so.
func TestChangesSayWhatTheyAreComparedWith(t *testing.T) {
	windows := Windows{From: at("03:12:20"), To: at("03:20:00"), BeforeFrom: at("02:12:20"), BeforeTo: at("03:12:20")}
	page := Changes{At: at("03:20:04"), Changes: []Change{{
		Text: "new errors", Windows: windows, Requests: "/debug/traces?class=error", Traces: []string{"0af7"}, PromQL: "sum(rate(a[1m]))",
	}}}
	text := func() string {
		var b strings.Builder
		page.WriteText(&b)
		return b.String()
	}
	const rest = "  requests: /debug/traces?class=error\n  trace: /debug/traces/0af7\n  promql: sum(rate(a[1m]))\n"
	require.Contains(t, text(), "\nnew errors\n  compared with 02:12:20 to 03:12:20\n"+rest)
	page.Windows = &windows
	require.Contains(t, text(), "03:12:20 to 03:20:00, compared with 02:12:20 to 03:12:20\n\nnew errors\n"+rest)
	page.Changes[0].PromQLCovers = "the whole server"
	require.Contains(t, text(), "\n  promql of the whole server: sum(rate(a[1m]))\n")
}

// The page says when it does not know the callers of some requests.
func TestChangesSayWhatTheyDoNotKnow(t *testing.T) {
	page, text := Changes{}, strings.Builder{}
	page.WriteText(&text)
	require.NotContains(t, text.String(), "without their callers")
	page.History.Merged = 12
	page.WriteText(&text)
	require.Contains(t, text.String(), "\n12 requests count without their callers, because there are too many callers\n")
}
