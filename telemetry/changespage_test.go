package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func changesPageOf(tel *Telemetry, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	tel.ChangesHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/changes"+query, nil))
	return w
}

func TestWindowsOfChanges(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 7, 0, time.UTC)
	for query, want := range map[string]string{
		"form=1":                    `there is no parameter "form"`,
		"from=noon":                 `from: want a time such as 2026-03-04T12:00:00Z, not "noon"`,
		"to=2026-03-04T11:00:00Z":   "from is missing",
		"from=2026-03-04T13:00:00Z": "to must be at least ten seconds after from",
		"from=2026-03-04T11:00:00Z&before_from=2026-03-04T10:00:00Z":                                "want both of before_from and before_to",
		"from=2026-03-04T11:00:00Z&before_from=2026-03-04T10:00:00Z&before_to=2026-03-04T10:00:30Z": "at least a minute after before_from",
		"from=2026-03-04T11:00:00Z&before_from=2026-03-04T10:00:00Z&before_to=2026-03-04T11:00:10Z": "before_to must not be after from",
		"from=2026-03-04T11:00:00Z&before_from=2026-02-04T10:00:00Z&before_to=2026-02-04T11:00:10Z": "must not be longer than 24 hours",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = readWindows(values, now)
		require.ErrorContains(t, err, want, query)
	}
	w, err := readWindows(url.Values{"from": {"2026-03-04T11:59:05Z"}}, now)
	require.NoError(t, err)
	require.Equal(t, "11:59:00 12:00:00 10:59:00 11:59:00", w.From.Format(time.TimeOnly)+" "+w.To.Format(time.TimeOnly)+" "+
		w.BeforeFrom.Format(time.TimeOnly)+" "+w.BeforeTo.Format(time.TimeOnly))
	w, err = readWindows(url.Values{"format": {"text"}}, now)
	require.NoError(t, err)
	require.Nil(t, w)
}

func TestChangesPageRefusesBadQueries(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, changesPageOf(tel, "?from=noon").Code)
	w := httptest.NewRecorder()
	tel.ChangesHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/debug/changes", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// The page says when there is no change, and what the history has. Disabled telemetry has none.
func TestChangesPageAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		_, op := tel.Begin(t.Context(), Info{Method: mcp.MethodPing})
		op.End(Outcome{})
		time.Sleep(20 * time.Second)
		text := changesPageOf(tel, "?format=text").Body.String()
		require.Contains(t, text, "Nothing has changed.")
		require.Contains(t, text, "history: since 2000-01-01T00:00:00Z, 1 combinations of caller, tool and outcome in ")
		require.Contains(t, text, "of 8388608 bytes (max_change_bytes)")
	})
	require.Contains(t, changesPageOf(Disabled(), "").Body.String(), `"changes": []`)
}

// The memory of a search counts while somebody looks, and for a minute longer.
func TestMemoryOfASearchIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		_, op := tel.Begin(t.Context(), Info{Method: mcp.MethodPing})
		op.End(Outcome{})
		time.Sleep(20 * time.Second)
		require.Len(t, kept(tel), 1) // the step is in the history now
		bytes := tel.changes.Stats().Bytes
		for range 2 {
			changesPageOf(tel, "")
			require.Greater(t, tel.changes.Stats().Bytes, bytes)
			time.Sleep(unusedAfter - time.Second)
		}
		require.Greater(t, tel.changes.Stats().Bytes, bytes)
		time.Sleep(2 * time.Second)
		require.Equal(t, bytes, tel.changes.Stats().Bytes)
	})
}

// The metrics of the history are what the page says of it: its bytes, its combinations, its age, and the requests that it
// does not keep apart.
func TestMetricsOfTheHistoryOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New(WithRecent(Recent{ChangeBytes: 64 << 10}))
		require.NoError(t, err)
		for step := range 30 {
			for i := range 40 {
				tel.changes.Add(&changes.Observation{
					Client: fmt.Sprint("bot-", step, "-", i), Version: "1", Method: "tools/call", Target: "echo",
					Outcome: changes.OutcomeAnswered, At: time.Now().UnixNano(),
				})
			}
			time.Sleep(changes.StepSeconds * time.Second)
		}
		kept(tel) // closes the last step
		stats := tel.changes.Stats()
		require.Positive(t, stats.Merged)
		require.Less(t, stats.Merged, uint64(30*40))
		w := httptest.NewRecorder()
		tel.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for name, want := range map[string]float64{
			MetricChangesBytes: float64(stats.Bytes), MetricChangesKeys: float64(stats.Keys),
			MetricChangesAge: time.Since(stats.Oldest).Seconds(), MetricChangesMerged: float64(stats.Merged),
		} {
			require.Positive(t, want, name)
			found := regexp.MustCompile("(?m)^" + name + ` (\S+)$`).FindStringSubmatch(w.Body.String())
			require.NotNil(t, found, name)
			got, err := strconv.ParseFloat(found[1], 64)
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}
	})
}
