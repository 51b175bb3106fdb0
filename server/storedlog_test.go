package server_test

import (
	"log/slog"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// The log says whose answer was stored, and whose stored answer was lost: the client, the session, the tool, the id of
// the request and its trace.
func TestLogLinesOfStoredAnswersNameTheRequest(t *testing.T) {
	var log lockedBuffer
	srv, release := patient(t, server.WithTelemetry(recording(t)), server.WithLimits(server.Limits{MaxEvents: 3}),
		server.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	exchange(t, "POST", url, legacy("r-7", "tools/call", callPatient+`,"_meta":{"traceparent":"00-`+trace+`-00f067aa0ba902b7-01"}`), sid)
	session := requestsPage(t, srv).Requests[0].Session
	close(release)
	logged := func(pattern string) {
		t.Helper()
		require.Eventually(t, func() bool { return regexp.MustCompile(pattern).MatchString(log.String()) }, wait, tick, log.String())
	}
	who := `method=tools/call id=r-7 target=patient session=` + regexp.QuoteMeta(session) + ` client=c client_version=1 `
	logged(`level=DEBUG msg=response\.stored ` + who + `age=\S+ event=\S+-3 silenced=0 trace_id=` + trace + ` `)

	exchange(t, "POST", url, legacy("r-8", "tools/call", callPatient), sid) // its three events take the place of the others
	logged(`level=WARN msg=response\.expired ` + who + `stored_for=\S+ reason=max_events silenced=0 trace_id=` + trace + ` `)
	conserved(t, srv)
}
