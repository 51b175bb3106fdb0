package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// callOf is a call of a client, on behalf of a principal.
func callOf(tool, client, version, subject string) *session.Inbound {
	in := call(tool)
	in.Meta.ClientInfo = fmt.Appendf(nil, `{"name":%q,"version":%q}`, client, version)
	conn := *httpConn
	conn.Principal = &auth.Principal{Subject: subject, Tenant: "acme"}
	in.Conn = &conn
	return in
}

func TestTracesAreFiltered(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
	r.classes["heavy"] = session.NewClass("slow backend", 4)
	r.tools["heavy"] = r.tools["echo"]
	long := strings.Repeat("l", maxName+1)
	r.post(callOf("echo", "desk", "4.2.9", "ann"), &sink{})                                     // 1
	r.post(callOf("echo", "desk", "4.3.0", "bob"), &sink{fail: brokenPipe(mcp.DropBrokenPeer)}) // 2
	r.post(callOf("fail", "desk", "4.3.0", "ann"), &sink{})                                     // 3
	r.post(callOf("heavy", long, "", "ann"), &sink{})                                           // 4
	in := callOf("echo", "desk", "4.2.9", "ann")
	in.Refusal = mcp.NewError(mcp.CodeInvalidRequest, "no")
	r.post(in, &sink{}) // 5
	for query, want := range map[string][]string{
		"":                         {"5", "4", "3", "2", "1"},
		"client=desk":              {"5", "3", "2", "1"},
		"client=" + long:           {"4"},
		"client=" + long[:maxName]: {"4"},
		"client=des":               {},
		"client_version=4.3.0":     {"3", "2"},
		"client_version=-":         {"4"},
		"client=desk&tool=echo":    {"5", "2", "1"},
		"tool=heavy":               {"4"},
		"principal=" + url.QueryEscape((&auth.Principal{Subject: "bob", Tenant: "acme"}).String()): {"2"},
		"principal=-":                           {},
		"tenant=acme&limit=2":                   {"5", "4"},
		"concurrency_class=slow+backend":        {"4"},
		"concurrency_class=-&tool=fail":         {"3"},
		"class=error":                           {"3"},
		"class=dropped&client=desk":             {"2"},
		"outcome=dropped":                       {"2"},
		"reason=broken_peer":                    {"2"},
		"cause=-&reason=-&tool=echo":            {"5", "1"},
		"cause=client_disconnect":               {},
		"session=-":                             {"5", "4", "3", "2", "1"},
		"session=abc":                           {},
		"method=tools%2Fcall&format=json&tool=": {"5", "4", "3", "2", "1"},
	} {
		ids := []string{}
		for _, row := range fetch[report.Traces](t, r, "/debug/traces?"+query).Traces {
			ids = append(ids, row.ID)
		}
		require.Equal(t, want, ids, query)
	}
}

// A mistyped filter must not look like one that selects everything.
func TestUnknownTraceFiltersAreRefused(t *testing.T) {
	r := newRig(t, rigConfig{})
	for query, want := range map[string]string{
		"clientversion=1": `there is no filter "clientversion": want some of limit, format, group, since, until, class, method, tool, client, client_version,`,
		"class=heavy":     `there is no class "heavy": want one of abandoned, panic,`,
		"limit=0":         "limit: want a positive whole number",
		"limit=many":      "limit: want a positive whole number",
		"since=noon":      `since: want a time such as 2026-03-04T12:00:00Z, not "noon"`,
		"until=noon":      `until: want a time such as 2026-03-04T12:00:00Z, not "noon"`,
	} {
		rec := httptest.NewRecorder()
		tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/traces?"+query, nil))
		require.Equal(t, 400, rec.Code, query)
		require.Contains(t, rec.Body.String(), want)
	}
}

// The class is a column if a request has one.
func TestTracesTextHasTheConcurrencyClass(t *testing.T) {
	r := newRig(t, rigConfig{})
	text := func() string {
		rec := httptest.NewRecorder()
		tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/traces?format=text", nil))
		return rec.Body.String()
	}
	r.post(call("echo"), &sink{})
	require.Regexp(t, `(?m)^N +AT +TOOK +ANSWER BYTES +CLASS +OUTCOME +METHOD +TOOL +ID +CLIENT +WHY +TRACE$`, text())
	require.Regexp(t, `(?m) tools/call +echo +7 +tester 1\.2 +- +[0-9a-f]{32}$`, text())
	r.classes["heavy"] = session.NewClass("backend", 4)
	r.tools["heavy"] = r.tools["echo"]
	r.post(call("heavy"), &sink{})
	require.Regexp(t, `(?m) ID +CONCURRENCY CLASS +CLIENT +WHY +TRACE$`, text())
	require.Regexp(t, `(?m) tools/call +heavy +7 +backend +tester 1\.2 +- +[0-9a-f]{32}$`, text())
	require.Regexp(t, `(?m) tools/call +echo +7 +- +tester 1\.2 +- +[0-9a-f]{32}$`, text())
}
