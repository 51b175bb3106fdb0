package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// The page of events names the session and the client whose stored answer takes the memory.
func TestEventsPageNamesHolders(t *testing.T) {
	srv, release := patient(t)
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	idle := sessionWith(t, url, "2025-11-25")
	_, body := exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sid)
	page := func() (rep report.Events) {
		readPage(t, srv.Telemetry().EventsHandler(), "/debug/events", "", &rep)
		return rep
	}
	before := page()
	require.Equal(t, 2, before.Events, "the begin of the stream and the time to come back")
	require.Zero(t, before.Answers)
	close(release)
	require.Eventually(t, func() bool { return page().Answers == 1 }, wait, tick)
	rep := page()
	require.Equal(t, 3, rep.Events)
	require.Equal(t, 1, rep.Streams)
	require.Greater(t, rep.Bytes, before.Bytes)
	require.Equal(t, 64<<20, rep.MaxBytes)
	require.Len(t, rep.BySession, 1, "the other session has none")
	require.Equal(t, rep.Bytes, rep.BySession[0].Bytes)
	require.EqualValues(t, 1, rep.BySession[0].Share)
	require.Contains(t, sid, rep.BySession[0].Session)
	require.Equal(t, "c", rep.ByClient[0].Client)
	require.Equal(t, "1", rep.ByClient[0].ClientVersion)
	require.Positive(t, rep.OldestAgeSeconds)

	s := openStream(t, "GET", url, "", sid, "Last-Event-ID: "+lastID(body))
	require.Contains(t, s.next(), `"closed"`)
	s.ends()
	require.Eventually(t, func() bool { rep := page(); return rep.Answers == 0 && rep.Fetched == 1 }, wait, tick)
	exchange(t, "DELETE", url, "", sid)
	exchange(t, "DELETE", url, "", idle)
	require.Eventually(t, func() bool { rep := page(); return rep.Bytes == 0 && rep.Sessions == 0 }, wait, tick)
	conserved(t, srv)
}
