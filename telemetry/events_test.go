package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// A fixedSource returns the same snapshot each time.
type fixedSource Snapshot

func (s *fixedSource) Snapshot() *Snapshot {
	snap := Snapshot(*s)
	snap.At = time.Now()
	return &snap
}

// A holder is a session with events in memory.
type holder struct {
	info Info
	held state.Events
}

func (h *holder) Describe() Info           { return h.info }
func (h *holder) EventsHeld() state.Events { return h.held }

// stored returns the snapshot of a server with 25 sessions of small clients, one with large events, and one
// without any.
func stored() *fixedSource {
	now := time.Now()
	src := &fixedSource{
		Events: &state.Events{Bytes: 25*100 + 7500, Events: 75, Oldest: now.Add(-time.Minute)},
		Shares: []state.Share{{Limit: limits.NameEventBytesTotal, Size: 20_000, Used: 10_000}},
		Counters: state.Counters{
			ResponsesFetched: 3, ResponsesExpired: map[mcp.ExpireReason]uint64{mcp.ExpireMaxEventBytesTotal: 33}, EventFailures: map[string]uint64{"append": 2},
		},
	}
	for i, id := range []string{"1", "2"} {
		src.Expired = append(src.Expired, session.ExpiredAnswer{
			Context: trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 7}, SpanID: trace.SpanID{7: 1}})),
			Method:  "tools/call", Target: "export", ID: id, Session: "big", Client: "exporter", ClientVersion: "2.0", Principal: "ann",
			Reason: mcp.ExpireMaxEvents, StoredAt: now.Add(-time.Minute), ExpiredAt: now.Add(time.Duration(i-2) * time.Second),
		})
	}
	add := func(name, client, version string, held state.Events, answers int) {
		src.Sessions = append(src.Sessions, SessionState{
			Origin: &holder{Info{Session: name, Client: &mcp.Implementation{Name: client, Version: version}}, held},
			Key:    uint64(len(src.Sessions) + 1), Stored: answers,
		})
	}
	for i := range 25 {
		add(fmt.Sprintf("small-%02d", i), "small", fmt.Sprintf("1.%d", i/20), state.Events{Bytes: 100, Events: 1, Streams: 1, Oldest: now.Add(-time.Second)}, 0)
	}
	add("big", "exporter", "2.0", state.Events{Bytes: 7500, Events: 50, Streams: 2, Oldest: now.Add(-time.Minute)}, 4)
	add("idle", "idle", "1", state.Events{}, 0)
	return src
}

func TestEventsByHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		tel.AddSource(stored())
		rep := tel.reportEvents()
		require.Equal(t, report.EventsHeld{Bytes: 10_000, Events: 75, Streams: 27, Answers: 4, OldestAgeSeconds: 60}, rep.EventsHeld)
		require.Equal(t, 26, rep.Sessions, "the one without events holds nothing")
		require.Equal(t, 20_000, rep.MaxBytes)
		require.Equal(t, map[string]uint64{"max_event_bytes_total": 33}, rep.Expired)
		require.Equal(t, map[string]uint64{"append": 2}, rep.Failures)
		require.EqualValues(t, 3, rep.Fetched)

		big := report.EventsHeld{Bytes: 7500, Events: 50, Streams: 2, Answers: 4, OldestAgeSeconds: 60}
		require.Len(t, rep.BySession, 20)
		require.Equal(t, report.EventHolder{EventsHeld: big, Sessions: 1, Share: 0.75, Key: "s26", Session: "big", Client: "exporter", ClientVersion: "2.0"}, rep.BySession[0])
		require.Equal(t, report.EventHolder{EventsHeld: report.EventsHeld{Bytes: 600, Events: 6, Streams: 6, OldestAgeSeconds: 1}, Sessions: 6, Share: 0.06}, rep.OtherSessions)
		require.Equal(t, []report.EventHolder{
			{EventsHeld: big, Sessions: 1, Share: 0.75, Client: "exporter", ClientVersion: "2.0"},
			{EventsHeld: report.EventsHeld{Bytes: 2000, Events: 20, Streams: 20, OldestAgeSeconds: 1}, Sessions: 20, Share: 0.2, Client: "small", ClientVersion: "1.0"},
			{EventsHeld: report.EventsHeld{Bytes: 500, Events: 5, Streams: 5, OldestAgeSeconds: 1}, Sessions: 5, Share: 0.05, Client: "small", ClientVersion: "1.1"},
		}, rep.ByClient)
		require.Zero(t, rep.OtherClients)
		require.Equal(t, report.LostAnswer{
			At: rep.At.Add(-time.Second), StoredSeconds: 59, Reason: "max_events", Method: "tools/call", Target: "export", ID: "2", Session: "big",
			Client: "exporter", ClientVersion: "2.0", Principal: "ann", TraceID: "00000000000000000000000000000007",
		}, rep.Lost[0], "the newest is first")
		require.Len(t, rep.Lost, 2)

		var text strings.Builder
		rep.WriteText(&text)
		require.Contains(t, text.String(), "10000 of 20000 bytes in 75 events of 27 streams and 26 sessions, the oldest 1m0s old\n")
		require.Contains(t, text.String(), "fetched 3, expired: max_event_bytes_total 33, failures: append 2\n")
		require.Regexp(t, `(?m)^7500 +75\.0 % +50 +2 +4 +1m0s +1 +exporter 2\.0$`, text.String())
		require.Regexp(t, `(?m) +58s +max_events +tools/call +export +1 +big +ann by exporter 2\.0 +0{31}7$`, text.String())
		require.Contains(t, text.String(), "and 6 other sessions with 600 bytes in 6 events, 0 answers\n")

		require.Equal(t, &report.EventsHeld{Bytes: 10_000, Events: 75, Answers: 4, OldestAgeSeconds: 60}, tel.report().StoredEvents)
		families := gather(t, tel.Registry())
		require.EqualValues(t, 75, value(families, MetricStoredEvents))
		require.EqualValues(t, 60, value(families, MetricStoredEventsAge))
	})
}

// A server with a store of the program knows only which answers were not fetched.
func TestEventsOfAnotherStore(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	tel.AddSource(&fixedSource{Sessions: []SessionState{{Origin: &holder{info: Info{Session: "s"}}, Key: 1, Stored: 2}}})
	rep := tel.reportEvents()
	require.Equal(t, 2, rep.Answers)
	require.Equal(t, 2, rep.BySession[0].Answers)
	require.Nil(t, tel.report().StoredEvents)
	var text strings.Builder
	rep.WriteText(&text)
	require.Contains(t, text.String(), "no events are kept in memory\nanswers that clients may fetch: 2\n")
}
