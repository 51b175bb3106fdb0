package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestMetricNamesFollowPrometheus(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	problems, err := testutil.GatherAndLint(tel.Registry(), catalogueNames()...)
	require.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func catalogueNames() []string {
	var names []string
	for _, m := range Catalogue() {
		names = append(names, m.Name)
	}
	return names
}

// TestExposedMetricsAreThoseOfTheCatalogue: each metric of the catalogue is exposed with its
// kind and labels, and nothing of ours is exposed that is not in the catalogue.
func TestExposedMetricsAreThoseOfTheCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["slow"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			TestBridge.Validated(q, 0)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		r.tel.AddSource(auditedSource{})
		r.tel.AddSource(streamingSource{})
		r.tel.AddSource(credentialsSource{})
		r.classes["slow"] = session.NewClass("backend", 4)
		r.core.UseClass(r.classes["slow"])
		require.NoError(t, r.core.SetRates([]rates.Rule{{Name: "calls", Requests: 1, Window: time.Hour}}))
		r.core.SetAuthenticator(countingAuthenticator{})
		r.post(call("slow"), &sink{})
		s := r.core.Connect(pipeConn, &sink{})
		s.Close(mcp.CauseTransportClose)
		<-s.Done()
		r.tel.ExchangeEnded(Info{}, nil, session.StreamAnswer, session.StreamPeerLeft, time.Second)
		families := gather(t, r.tel.Registry())
		kinds := map[Kind]dto.MetricType{
			Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE, Histogram: dto.MetricType_HISTOGRAM,
		}
		seen := map[string]bool{}
		for _, m := range Catalogue() {
			require.False(t, seen[m.Name], m.Name)
			require.False(t, seen[m.OTel], m.OTel)
			seen[m.Name], seen[m.OTel] = true, true
			f := families[m.Name]
			require.NotNil(t, f, m.Name)
			require.Equal(t, kinds[m.Kind], f.GetType(), m.Name)
			require.Equal(t, m.Help, f.GetHelp())
			for _, series := range f.GetMetric() {
				require.Len(t, series.GetLabel(), len(m.Labels), m.Name)
				for _, l := range m.Labels {
					v := labelValue(series, l.Name)
					if l.Values != nil {
						require.Contains(t, l.Values, v, "%s{%s}", m.Name, l.Name)
					}
				}
			}
		}
		for name := range families {
			if strings.HasPrefix(name, "vitrine_") || strings.HasPrefix(name, "mcp_") {
				require.True(t, seen[name], name)
			}
		}
	})
}

// An auditedSource is a server that has an audit, and nothing else.
type auditedSource struct{}

func (auditedSource) Snapshot() *Snapshot {
	return &Snapshot{Audit: []audit.SinkStats{{
		Sink: "file", Written: 7, Lost: map[string]uint64{audit.LostFull: 2, audit.LostClosed: 1}, Refused: 3, Failures: 4,
		Waiting: 5, Bytes: 6, Stalled: 90 * time.Second, Head: 9,
	}}}
}

// A streamingSource has a tool that streams.
type streamingSource struct{}

func (streamingSource) Snapshot() *Snapshot { return &Snapshot{Streaming: []string{"follow"}} }

// What a source says of its audit is exposed.
func TestAuditMetrics(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(tel.Registry(), strings.NewReader(""), MetricAuditRecords), "nothing without an audit")
	tel.AddSource(auditedSource{})
	require.NoError(t, testutil.GatherAndCompare(tel.Registry(), strings.NewReader(`
# HELP vitrine_audit_head_records Number of the last record in the chain of a sink of the audit.
# TYPE vitrine_audit_head_records gauge
vitrine_audit_head_records{sink="file"} 9
# HELP vitrine_audit_queued_bytes About what the records take that wait for a sink of the audit.
# TYPE vitrine_audit_queued_bytes gauge
vitrine_audit_queued_bytes{sink="file"} 6
# HELP vitrine_audit_queued_records Records that wait for a sink of the audit.
# TYPE vitrine_audit_queued_records gauge
vitrine_audit_queued_records{sink="file"} 5
# HELP vitrine_audit_records_lost_total Records of the audit that were lost, by the reason.
# TYPE vitrine_audit_records_lost_total counter
vitrine_audit_records_lost_total{reason="closed",sink="file"} 1
vitrine_audit_records_lost_total{reason="not_written",sink="file"} 0
vitrine_audit_records_lost_total{reason="queue_full",sink="file"} 2
vitrine_audit_records_lost_total{reason="refusals_full",sink="file"} 0
# HELP vitrine_audit_records_total Records that a sink of the audit has taken.
# TYPE vitrine_audit_records_total counter
vitrine_audit_records_total{sink="file"} 7
# HELP vitrine_audit_stalled_seconds How long a sink of the audit has taken no record although some wait.
# TYPE vitrine_audit_stalled_seconds gauge
vitrine_audit_stalled_seconds{sink="file"} 90
# HELP vitrine_audit_write_failures_total Writes to a sink of the audit that have failed. They are tried again.
# TYPE vitrine_audit_write_failures_total counter
vitrine_audit_write_failures_total{sink="file"} 4
`), MetricAuditHead, MetricAuditQueuedBytes, MetricAuditQueued, MetricAuditLost, MetricAuditRecords, MetricAuditStalled, MetricAuditFailures))
	text, err := testutil.CollectAndFormat(tel.Registry(), expfmt.TypeTextPlain, MetricLimitReached)
	require.NoError(t, err)
	require.Contains(t, string(text), `vitrine_limit_reached_total{limit="audit_queue"} 5`)
}

func labelValue(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return "<absent>"
}

// TestCountersExistFromTheStart: every closed label value is there before anything happens.
func TestCountersExistFromTheStart(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	families := gather(t, tel.Registry())
	for _, reason := range mcp.ResponseDropReasons() {
		require.Zero(t, value(families, MetricResponsesDropped, "method", "tools/call", "tool", "", "reason", string(reason)))
	}
	for _, cause := range mcp.Causes() {
		require.Zero(t, value(families, MetricRequestsCancelled, "method", "tools/call", "tool", "", "cause", string(cause)))
		require.Zero(t, value(families, MetricHandlersAbandoned, "tool", "", "cause", string(cause)))
		require.Zero(t, value(families, MetricSessionsClosed, "cause", string(cause)))
		require.Zero(t, value(families, MetricCancelUnwind, "tool", "", "cause", string(cause)))
	}
	for _, reason := range mcp.RejectReasons() {
		require.Zero(t, value(families, MetricRequestsRejected, "reason", string(reason)))
	}
	for _, state := range session.States() {
		require.Zero(t, value(families, MetricRequestsInFlight, "state", state))
	}
	for _, reason := range mcp.RefuseReasons() {
		require.Zero(t, value(families, MetricHTTPRefused, "reason", string(reason)))
	}
	for _, limit := range limits.Names() {
		require.Zero(t, value(families, MetricLimitReached, "limit", limit))
	}
	for _, reason := range mcp.NotificationDropReasons() {
		require.Zero(t, value(families, MetricNotificationsDropped, "method", mcp.NotificationProgress, "reason", string(reason)))
	}
	for _, kind := range ignoredKinds() {
		for _, reason := range mcp.IgnoreReasons(kind) {
			require.Zero(t, value(families, MetricFramesIgnored, "kind", string(kind), "reason", string(reason)))
		}
	}
	for _, transport := range transports() {
		require.Zero(t, value(families, MetricSessionsActive, "transport", transport))
	}
	require.Zero(t, value(families, MetricArgumentsRejected, "tool", ""))
	require.EqualValues(t, 1, value(families, MetricBuildInfo))
}

// TestShutdownCancellationsExistFromTheFirstCall: what a shutdown cuts of a tool has been 0 before, and its
// other causes need not be there: the tool has many.
func TestShutdownCancellationsExistFromTheFirstCall(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.core.Series(mcp.MethodToolsCall, "registered")
	r.post(call("echo"), &sink{})
	families := gather(t, r.tel.Registry())
	require.Zero(t, value(families, MetricRequestsCancelled, "tool", "echo", "cause", string(mcp.CauseServerShutdown)))
	require.EqualValues(t, -1, value(families, MetricRequestsCancelled, "tool", "echo", "cause", string(mcp.CauseDeadline)))
	require.EqualValues(t, -1, value(families, MetricRequestsCancelled, "tool", "registered"))
}

// TestClientsCannotMakeSeries: nothing that a stranger can send makes a time series.
func TestClientsCannotMakeSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		hostile := func(i int) *session.Inbound {
			in := call(fmt.Sprintf("tool-%d", i))
			if i%2 == 0 {
				in.Method = fmt.Sprintf("method/%d", i)
			}
			in.ID = mcp.StringID(fmt.Sprintf("id-%d", i))
			in.Version = mcp.Version(fmt.Sprintf("2999-%d", i))
			in.Meta.ClientInfo = fmt.Appendf(nil, `{"name":"client-%d","version":"%d"}`, i, i)
			in.Conn = &session.Conn{Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: fmt.Sprint("1.", 2+i%8)}
			return in
		}
		notify := func(i int) {
			r.core.Notify(&session.Inbound{Conn: httpConn, Version: mcp.Version(fmt.Sprint("2998-", i)), Envelope: wire.Envelope{
				Kind: wire.Notification, Method: fmt.Sprint("notifications/", i),
			}})
		}
		r.post(hostile(0), &sink{})
		r.post(hostile(1), &sink{})
		notify(0)
		before := count(gather(t, r.tel.Registry()))
		for i := range 10_000 {
			r.post(hostile(i), &sink{})
			notify(i)
		}
		require.Equal(t, before, count(gather(t, r.tel.Registry())))
		for _, s := range r.spans.Ended() {
			require.Contains(t, []string{"tools/call", other}, s.Name())
		}
	})
}

func count(families map[string]*dto.MetricFamily) (n int) {
	for name, f := range families {
		if strings.HasPrefix(name, "vitrine_") || strings.HasPrefix(name, "mcp_") {
			n += len(f.GetMetric())
		}
	}
	return n
}

// A histogram is native as well exactly where the catalogue says so.
func TestNativeHistograms(t *testing.T) {
	in, native := newInstruments(false), 0
	for _, m := range Catalogue() {
		if m.Kind != Histogram {
			require.False(t, m.Native, m.Name)
			continue
		}
		if in.rows[m.Name].read != nil {
			require.False(t, m.Native, "%s is read from snapshots", m.Name)
			continue
		}
		i := slices.IndexFunc(in.collectors, func(c prometheus.Collector) bool {
			v, ok := c.(*prometheus.HistogramVec)
			return ok && strings.Contains(describe(v), `"`+m.Name+`"`)
		})
		require.GreaterOrEqual(t, i, 0, m.Name)
		labels := make([]string, len(m.Labels))
		var got dto.Metric
		require.NoError(t, in.collectors[i].(*prometheus.HistogramVec).WithLabelValues(labels...).(prometheus.Metric).Write(&got))
		require.Equal(t, m.Native, got.GetHistogram().Schema != nil, m.Name)
		if m.Native {
			native++
		}
	}
	require.Equal(t, 9, native)
}

// describe returns what a collector says of its metric.
func describe(c prometheus.Collector) string {
	ch := make(chan *prometheus.Desc, 1)
	c.Describe(ch)
	return (<-ch).String()
}
