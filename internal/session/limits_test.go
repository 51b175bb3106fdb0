package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// TestDeadlineNamesItsLimit holds that the error of a missed deadline names the knob
// that would help, and none if the route itself has set the deadline.
func TestDeadlineNamesItsLimit(t *testing.T) {
	for _, tc := range []struct {
		route time.Duration
		max   time.Duration
		limit string
	}{
		{0, 0, limits.NameRequestTimeout},
		{5 * time.Second, 0, ""},
		{5 * time.Second, 3 * time.Second, limits.NameMaxRequestTimeout},
		{0, 3 * time.Second, limits.NameMaxRequestTimeout},
	} {
		inWorld(t, limits.Limits{MaxRequestTimeout: tc.max}, func(w *world) {
			g := w.gate("work", false)
			w.route("work", func(rt *Route) { rt.Deadline = tc.route })
			p := w.connect(true)
			p.call("1", "work")
			h := g.next()
			<-h.ctx.Done()
			require.Len(t, p.frames(), 1)
			want := counts{"admitted": 1, "sent": 1, "cancelled/deadline": 1}
			if tc.limit == "" {
				require.NotContains(t, p.frames()[0], `"limit"`)
			} else {
				require.Contains(t, p.frames()[0], `"limit":"`+tc.limit+`"`)
				want["limit/"+tc.limit] = 1
			}
			require.Equal(t, want, w.counts())
		})
	}
}
