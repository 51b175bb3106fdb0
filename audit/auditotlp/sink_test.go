package auditotlp

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An exporter keeps records, and fails as often as it is told.
type exporter struct {
	mu      sync.Mutex
	fails   int
	records []sdklog.Record
	ended   bool
}

func (e *exporter) Export(_ context.Context, records []sdklog.Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails > 0 {
		e.fails--
		return errors.New("the collector is down")
	}
	for i := range records {
		e.records = append(e.records, records[i].Clone())
	}
	return nil
}

func (e *exporter) Shutdown(context.Context) error {
	e.ended = true
	return nil
}

func (e *exporter) ForceFlush(context.Context) error { return nil }

// A record becomes a log record, with its trace, its line and what people search for. An export that
// fails comes again.
func TestRecordsAreExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &exporter{fails: 2}
		sink, err := New(out, resource.NewSchemaless(attribute.String("service.name", "weather")))
		require.NoError(t, err)
		l, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}})
		require.NoError(t, err)
		began := time.Now()
		l.Add(audit.Record{
			Time: began, Principal: &auth.Principal{Issuer: "https://i.example", Subject: "ann", Tenant: "acme"}, Operation: "tools/call",
			Target: "echo", Decision: audit.DecisionDeny, Rule: "no", Stage: audit.StagePolicy, Outcome: audit.OutcomeRefused,
			Address: "192.0.2.1", TraceID: "0af7651916cd43dd8448eb211c80319c",
		})
		l.Add(audit.Record{Time: began, Operation: "ping", Outcome: audit.OutcomeOK})
		time.Sleep(time.Minute)
		require.NoError(t, l.Close(t.Context()))
		require.True(t, out.ended)
		require.Equal(t, uint64(2), l.Stats()[0].Failures)
		require.Len(t, out.records, 2)
		r := out.records[0]
		require.Equal(t, EventName, r.EventName())
		require.True(t, began.Equal(r.Timestamp()))
		require.Equal(t, log.SeverityWarn, r.Severity())
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", r.TraceID().String())
		require.Contains(t, r.Body().AsString(), `"subject":"ann"`)
		got := map[string]string{}
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			got[string(kv.Key)] = kv.Value.AsString()
			return true
		})
		require.Equal(t, map[string]string{
			"mcp.method.name": "tools/call", "vitrine.audit.target": "echo", "vitrine.audit.decision": "deny", "vitrine.audit.rule": "no",
			"vitrine.audit.stage": "policy", "vitrine.audit.outcome": "refused", "client.address": "192.0.2.1",
			"enduser.id": "ann", "vitrine.audit.issuer": "https://i.example", "vitrine.audit.tenant": "acme",
		}, got)
		service, _ := r.Resource().Set().Value("service.name")
		require.Equal(t, "weather", service.AsString())
		require.Equal(t, log.SeverityInfo, out.records[1].Severity())
		require.False(t, out.records[1].TraceID().IsValid())
	})
}

func TestNoExporter(t *testing.T) {
	_, err := New(nil, nil)
	require.Error(t, err)
}
