package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestQuestionsByVersion checks that the page tells a version that answers from one that does not,
// and that the age of the oldest question is a metric.
func TestQuestionsByVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		connect := func(version string, answers bool) *session.Session {
			out := &askSink{}
			s := r.core.Connect(pipeConn, out)
			s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion, Client: mcp.Implementation{Name: "desk", Version: version}})
			s.Initialized()
			if answers {
				out.respond = func() { s.Receive(answer(wire.Envelope{Result: jsontext.Value(`{"roots":[]}`)})) }
			}
			return s
		}
		ask := func(s *session.Session) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, _ = s.Ask(ctx, mcp.MethodRootsList, nil)
		}
		good, bad := connect("4.2.9", true), connect("4.3.0", false)
		ask(good)
		ask(bad)
		go ask(bad)
		time.Sleep(time.Second)

		rep := r.tel.report()
		require.Equal(t, []report.Question{
			{Method: "roots/list", Client: "desk", ClientVersion: "4.3.0", Open: 1, OldestAgeSeconds: 1, Asked: 2, Unanswered: map[string]uint64{"timeout": 1}},
			{Method: "roots/list", Client: "desk", ClientVersion: "4.2.9", Asked: 1, Answered: 1, Unanswered: map[string]uint64{}},
		}, rep.Questions)
		require.Equal(t, "4.3.0", rep.Outbound[0].ClientVersion)
		var text strings.Builder
		rep.WriteText(&text)
		require.Regexp(t, `(?m)^desk +4\.3\.0 +roots/list +1 +1s +2 +0 +1 +timeout 1$`, text.String())
		require.Regexp(t, `(?m)^desk +4\.2\.9 +roots/list +0 +0s +1 +1 +0 +none$`, text.String())
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricOldestOutboundAge, "method", "roots/list"))
		require.EqualValues(t, 0, value(families, MetricOldestOutboundAge, "method", "elicitation/create"))
		for _, s := range []*session.Session{good, bad} {
			s.Close(mcp.CauseTransportClose)
			<-s.Done()
		}
		r.rest()
	})
}

// TestQuestionsAreBounded checks that any number of names takes few rows, that no count is lost, and
// that a client that is used often keeps its row.
func TestQuestionsAreBounded(t *testing.T) {
	var q questions
	end := func(client string, err error) {
		q.ended(questionKey{mcp.MethodPing, client, "1"}, err, "timeout")
	}
	sealed := questionKey{mcp.MethodPing, "modern", "1"} // its row is the first that others push out
	q.seal(sealed, openQuestion{})
	q.seal(sealed, openQuestion{})
	q.returned(sealed, "", true)
	const clients = 3 * maxQuestionRows
	for i := range clients {
		end("regular", nil)
		end(fmt.Sprint("made up ", i), errors.New("none"))
	}
	rows := q.report(nil, time.Time{})
	require.Len(t, rows, maxQuestionRows+1)
	var asked, unanswered uint64
	for i := range rows {
		asked += rows[i].Asked
		unanswered += rows[i].Unanswered["timeout"]
		if rows[i].Client == "regular" {
			require.EqualValues(t, clients, rows[i].Answered)
		}
	}
	require.EqualValues(t, 2*clients+2, asked)
	require.EqualValues(t, clients, unanswered)
	require.Equal(t, other, rows[0].Client, "it has the most")
	require.EqualValues(t, 1, rows[0].Unanswered["not_returned"])
	require.EqualValues(t, 1, rows[0].Answered)
}

// TestOpenQuestionsOfModernClients checks that a question to a modern client is open until the answer to this very
// question comes, or until its state has expired, and is not returned from then on.
func TestOpenQuestionsOfModernClients(t *testing.T) {
	var q questions
	key := questionKey{mcp.MethodElicitationCreate, "desk", "4.3.0"}
	start := time.Unix(1e9, 0)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	row := func(minute int) report.Question { return q.report(nil, at(minute))[0] }
	ask := func(round string, minute int) { q.seal(key, openQuestion{round, at(minute), at(minute + 15)}) }
	want := func(open, oldest int, answered, lost uint64, minute int) {
		t.Helper()
		got := row(minute)
		require.Equal(t, open, got.Open)
		require.Equal(t, (time.Duration(oldest) * time.Minute).Seconds(), got.OldestAgeSeconds)
		require.Equal(t, answered, got.Answered)
		require.Equal(t, lost, got.Unanswered[notReturned])
		require.Equal(t, uint64(got.Open)+answered+lost, got.Asked)
	}
	ask("first", 0)
	ask("second", 2)
	ask("second", 2) // two questions in one result
	ask("third", 3)
	want(4, 5, 0, 0, 5)
	q.returned(key, "second", true)
	want(3, 5, 1, 0, 5)
	q.returned(key, "second", false) // without the other answer
	want(2, 5, 1, 1, 5)
	q.returned(key, "first", true)
	want(1, 3, 2, 1, 6)
	q.returned(key, "of another replica", false)
	want(1, 14, 2, 1, 17)
	want(0, 0, 2, 2, 18)
}

// TestOpenQuestionsAreBounded checks that a client that answers nothing does not push out the open question of
// another one, and that no question is lost.
func TestOpenQuestionsAreBounded(t *testing.T) {
	var q questions
	asked := openQuestion{"", time.Unix(1, 0), time.Unix(1000, 0)}
	quiet, storm := questionKey{mcp.MethodElicitationCreate, "quiet", "1"}, questionKey{mcp.MethodElicitationCreate, "storm", "1"}
	q.seal(quiet, asked)
	for range maxOpenQuestions + 100 {
		q.seal(storm, asked)
	}
	rows := map[string]report.Question{}
	for _, row := range q.report(nil, time.Unix(2, 0)) {
		rows[row.Client] = row
	}
	require.Equal(t, 1, rows["quiet"].Open)
	require.Equal(t, maxOpenQuestions-1, rows["storm"].Open)
	require.EqualValues(t, 101, rows["storm"].Unanswered[notReturned])
	require.EqualValues(t, maxOpenQuestions+100, rows["storm"].Asked)
	for range maxQuestionRows { // their rows push out those two
		q.seal(questionKey{mcp.MethodPing, fmt.Sprint(q.used), "1"}, asked)
	}
	require.Equal(t, maxQuestionRows, q.opened)
	q.report(nil, time.Unix(1000, 0))
	require.Zero(t, q.opened)
}
