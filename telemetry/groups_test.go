package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// answerOf returns what a handler of a page answers.
func answerOf(h http.Handler, url string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", url, nil))
	return rec
}

func TestTracesAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		took := time.Second / 2
		r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) {
			time.Sleep(took)
			return nil, errPrivate
		}
		for range 2 { // two attempts of one trace
			in := callOf("fail", "desk", "2", "ann")
			in.Meta.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			r.post(in, &sink{})
		}
		took = time.Second / 4
		r.post(callOf("fail", "desk", "2", "ann"), &sink{})
		r.post(callOf("fail", "desk", "3", "ann"), &sink{fail: brokenPipe(mcp.DropBrokenPeer)})
		r.post(callOf("echo", "desk", "3", "ann"), &sink{})
		time.Sleep(time.Second)
		page := fetch[report.Groups](t, r, "/debug/traces?group=tool,client_version,tool")
		require.Equal(t, []string{"tool", "client_version"}, page.By)
		require.Equal(t, 5, page.Requests)
		for i, age := range []float64{2.5, 1, 1.25} {
			require.InDelta(t, age, page.Groups[i].OldestAgeSeconds, 0.01)
			page.Groups[i].OldestAgeSeconds = 0
		}
		require.Equal(t, []report.Group{
			{
				Values: []string{"fail", "2"}, Count: 3, Traces: 2, MostAttempts: 2,
				Outcomes: map[string]int{"-32603": 3}, P50Seconds: 0.5, MaxSeconds: 0.5, Why: "-32603 internal error",
			},
			{
				Values: []string{"echo", "3"}, Count: 1, Traces: 1, MostAttempts: 1,
				Outcomes: map[string]int{"sent": 1}, P50Seconds: page.Groups[1].P50Seconds, MaxSeconds: page.Groups[1].MaxSeconds,
			},
			{
				Values: []string{"fail", "3"}, Count: 1, Traces: 1, MostAttempts: 1,
				Outcomes: map[string]int{"broken_peer": 1}, P50Seconds: 0.25, MaxSeconds: 0.25, Why: "broken_peer",
			},
		}, page.Groups)
		require.Equal(t, 1, fetch[report.Groups](t, r, "/debug/traces?group=tool&tool=echo").Requests, "filters select before")

		text := answerOf(tracesMux(r.tel), "/debug/traces?group=tool,client_version&format=text").Body.String()
		require.Regexp(t, `(?m)^COUNT +OLDEST +TRACES +MOST ATTEMPTS +P50 +MAX +OUTCOMES +TOOL +CLIENT VERSION +WHY \(LATEST\)$`, text)
		require.Regexp(t, `(?m)^3 +2\.5\d*s +2 +2 +500ms +500ms +-32603 3 +fail +2 +-32603 internal error$`, text)

		detail := fetch[report.TraceDetail](t, r, "/debug/traces/0af7651916cd43dd8448eb211c80319c")
		require.Equal(t, 2, detail.Attempts)
		require.Zero(t, detail.AttemptsInFlight)
		text = answerOf(tracesMux(r.tel), "/debug/traces/0af7651916cd43dd8448eb211c80319c?format=text").Body.String()
		require.Regexp(t, `(?m)^attempts +2 requests of this trace are kept, 0 are in flight$`, text)
	})
}

func TestRequestsAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := hanging(t)
		rec := answerOf(r.tel.RequestsHandler(), "/debug/requests?group=tool,client_version,state")
		var page report.Groups
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &page))
		require.Equal(t, []report.Group{{
			Values: []string{"hang", "1", "cancelled"}, Count: 1, OldestAgeSeconds: page.Groups[0].OldestAgeSeconds, Traces: 1, MostAttempts: 1,
		}}, page.Groups)
		require.InDelta(t, 0.5, page.Groups[0].OldestAgeSeconds, 0.001)
		text := answerOf(r.tel.RequestsHandler(), "/debug/requests?group=tool,state&format=text").Body.String()
		require.Regexp(t, `(?m)^COUNT +OLDEST +TRACES +MOST ATTEMPTS +TOOL +STATE\n1 +500ms +1 +1 +hang +cancelled$`, text)
		release()
	})
}

func TestUnknownGroupIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{})
	for url, h := range map[string]http.Handler{
		"/debug/requests?group=tool,version": r.tel.RequestsHandler(),
		"/debug/traces?group=tool,version":   tracesMux(r.tel),
		"/debug/traces?group=tool,state":     tracesMux(r.tel),
	} {
		rec := answerOf(h, url)
		require.Equal(t, http.StatusBadRequest, rec.Code)
		require.Regexp(t, `^group: there is no field "(version|state)": want some of .*client_version.*, separated by commas`, rec.Body.String())
	}
}

// The page has the largest groups, and says how many others there are.
func TestGroupsAreBounded(t *testing.T) {
	g := grouping{at: time.Now()}
	for i := range maxGroups + 7 {
		for range i + 1 {
			g.add([]string{fmt.Sprint(i)}, grouped{at: g.at})
		}
	}
	page := g.page([]string{"tool"})
	require.Len(t, page.Groups, maxGroups)
	require.Equal(t, 7, page.LeftOut)
	require.Equal(t, maxGroups+7, page.Groups[0].Count)
	require.Equal(t, 8, page.Groups[maxGroups-1].Count)
}
