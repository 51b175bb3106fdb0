package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// addSearch registers a tool. This line is what the page names.
func addSearch(srv *server.Server, description string) {
	server.AddTool(srv, server.Tool{Name: "search", Description: description}, func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
}

// TestStormOfListChanges checks that a tool that is registered each second is named with the code that
// does it: on the page, in the log once a minute, and by the counters.
func TestStormOfListChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tel, err := telemetry.New()
		require.NoError(t, err)
		defer func() { _ = tel.Shutdown(context.Background()) }()
		srv := server.New("storm", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			server.WithLimits(server.Limits{MaxListChanges: 10}))
		addSearch(srv, "at the start")
		for i := range 10 {
			time.Sleep(time.Second)
			addSearch(srv, fmt.Sprint("version ", i))
		}
		addSearch(srv, "version 9") // equal
		require.NotContains(t, log.String(), "registration.storm", "ten in a minute are allowed")
		for i := range 40 {
			time.Sleep(time.Second)
			addSearch(srv, fmt.Sprint("other version ", i))
		}
		require.Equal(t, 1, strings.Count(log.String(), "registration.storm"), "once a minute")
		require.Regexp(t, `level=WARN msg=registration\.storm kind=tool name=search place=\S*server/registrations_test\.go:\d+ changes=11 window=1m0s`, log.String())
		srv.RemoveTools("search")
		addSearch(srv, "again")

		rec := httptest.NewRecorder()
		tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
		var rep report.Requests
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &rep))
		require.Len(t, rep.Registrations, 1)
		row := rep.Registrations[0]
		require.Regexp(t, `server/registrations_test\.go:\d+$`, row.Place)
		row.Place, row.Last = "", time.Time{}
		require.Equal(t, report.Registration{Kind: "tool", Name: "search", Added: 1, Replaced: 51, Equal: 1, Removed: 1}, row)

		rec = httptest.NewRecorder()
		tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{
			`vitrine_list_changes_total{change="added",kind="tool"} 2`, `vitrine_list_changes_total{change="replaced",kind="tool"} 50`,
			`vitrine_list_changes_total{change="removed",kind="tool"} 1`, `vitrine_limit_reached_total{limit="max_list_changes"} 1`,
		} {
			require.Contains(t, rec.Body.String(), line)
		}
	})
}

// TestStormOfPolicies checks that policies that change each second are named as the cause of the changes of all lists: on
// the page, in the log once a minute, and by the counters.
func TestStormOfPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		srv := newServer(t, server.WithTelemetry(recording(t)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			server.WithLimits(server.Limits{MaxListChanges: 10}))
		addSearch(srv, "at the start")
		for range 40 {
			time.Sleep(time.Second)
			srv.PoliciesChanged()
		}
		require.Equal(t, 1, strings.Count(log.String(), "registration.storm"), "once a minute")
		require.Regexp(t, `level=WARN msg=registration\.storm kind=policies name="" place=\S*server/registrations_test\.go:\d+ changes=11 window=1m0s`, log.String())

		rows := requestsPage(t, srv).Registrations
		require.Len(t, rows, 1)
		require.Regexp(t, `server/registrations_test\.go:\d+$`, rows[0].Place)
		rows[0].Place, rows[0].Last = "", time.Time{}
		require.Equal(t, report.Registration{Kind: "policies", Replaced: 40}, rows[0])
		require.Regexp(t, `(?m)^policies +- +40 `, textOf(srv.Telemetry().RequestsHandler()))
		for _, kind := range []string{"tool", "prompt", "resource"} {
			require.Contains(t, metricsOf(srv), `vitrine_list_changes_total{change="policies",kind="`+kind+`"} 40`)
		}
		require.Contains(t, metricsOf(srv), `vitrine_list_changes_total{change="replaced",kind="tool"} 0`)
		require.Contains(t, metricsOf(srv), `vitrine_limit_reached_total{limit="max_list_changes"} 1`)
	})
}

// TestRegistrationsAreBounded checks that any number of items takes few rows, and that no change is lost.
func TestRegistrationsAreBounded(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	defer func() { _ = tel.Shutdown(context.Background()) }()
	srv := server.New("many", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.DiscardHandler)))
	const items = 2000
	for i := range items {
		uri := fmt.Sprint("test://", i)
		server.AddStaticResource(srv, server.Resource{URI: uri, Name: uri}, "text")
		srv.RemoveResources(uri)
	}
	rec := httptest.NewRecorder()
	tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
	var rep report.Requests
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &rep))
	require.Len(t, rep.Registrations, 20)
	require.Equal(t, "_OTHER", rep.Registrations[0].Name)
	require.EqualValues(t, items-512, rep.Registrations[0].Removed)
}

// TestUpdatesNameTheirResource checks that the page says which resource is updated how often and by which code, and
// that any number of updated resources does not push out the items that were replaced.
func TestUpdatesNameTheirResource(t *testing.T) {
	srv := newServer(t, server.WithTelemetry(recording(t)))
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://{n}", Name: "any"},
		func(context.Context, *server.Call, string, map[string]string) (string, error) { return "text", nil })
	addSearch(srv, "first")
	for i := range 5 {
		addSearch(srv, fmt.Sprint("version ", i))
	}
	p := dial(t, srv)
	p.initialize("2025-11-25")
	srv.ResourceUpdated("test://nobody")
	require.Contains(t, p.ask(legacy(2, "resources/subscribe", `"uri":"test://1"`)), `"result"`)
	srv.ResourceUpdated("test://nobody")
	for range 3 {
		srv.ResourceUpdated("test://1")
	}
	for i := range 600 {
		srv.ResourceUpdated(fmt.Sprint("test://1/", i))
	}
	rows := map[string]report.Registration{}
	for _, r := range requestsPage(t, srv).Registrations {
		rows[r.Name] = r
	}
	require.NotContains(t, rows, "test://nobody")
	require.EqualValues(t, 5, rows["search"].Replaced)
	require.EqualValues(t, 3+89, rows["_OTHER"].Updated, "of 601 resources 511 have rows, as the tool has; the one that was updated first has lost its row")
	require.Regexp(t, `server/registrations_test\.go:\d+$`, rows["_OTHER"].Place)
	require.Contains(t, textOf(srv.Telemetry().RequestsHandler()), " UPDATED ")
}
