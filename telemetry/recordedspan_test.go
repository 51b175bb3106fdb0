package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A life is what happens to an operation between its beginning and its end.
type life func(ctx context.Context, op *Operation) Outcome

// A lifeRow is an operation of which a page shows something special.
type lifeRow struct {
	info    func(*Info)
	ambient trace.SpanContext
	options []Option
	live    life
}

func lives() map[string]lifeRow {
	quiet := func(context.Context, *Operation) Outcome { return Outcome{Fate: FateSent} }
	return map[string]lifeRow{
		"success":                             {live: quiet},
		"no parent":                           {info: func(i *Info) { i.Carrier = nil }, live: quiet},
		"untrusted parent":                    {options: []Option{WithUntrustedParents()}, live: quiet},
		"ambient":                             {ambient: sampledSpan, live: quiet},
		"untrusted parent in an ambient span": {ambient: sampledSpan, options: []Option{WithUntrustedParents()}, live: quiet},
		"pseudonym":                           {info: func(i *Info) { i.Principal = ann }, options: []Option{WithPseudonyms([]byte("the key of server one"))}, live: quiet},
		"principal":                           {info: func(i *Info) { i.Principal = &auth.Principal{Subject: "bo\x07b"} }, live: quiet},
		"session and HTTP":                    {info: withHTTP, live: quiet},
		"initialize":                          {info: func(i *Info) { i.Method, i.Target = mcp.MethodInitialize, ""; withHTTP(i) }, live: quiet},
		"initialize of a source": {info: func(i *Info) {
			first := *i
			first.Method, first.Target, first.Version, first.Client = mcp.MethodInitialize, "", "", nil
			withHTTP(&first)
			known := first
			first.SessionID = ""
			known.Version, known.Client = mcp.LatestLegacyVersion, i.Client
			*i = first
			i.Origin = &firstContact{first, known}
		}, live: func(_ context.Context, op *Operation) Outcome {
			contact := op.origin.(*firstContact)
			contact.now = contact.later
			return Outcome{Fate: FateSent}
		}},
		"resource":       {info: func(i *Info) { i.Method, i.Target, i.URI = mcp.MethodResourcesRead, "", "file:///\x1bx" }, live: quiet},
		"prompt":         {info: func(i *Info) { i.Method = mcp.MethodPromptsGet }, live: quiet},
		"unknown method": {info: func(i *Info) { i.Method, i.Target = "no/such", "" }, live: quiet},
		"arguments, results": {info: func(i *Info) { i.Arguments = []byte(`{"n":1}`) }, options: []Option{WithArguments(nil), WithResults(nil)}, live: func(_ context.Context, op *Operation) Outcome {
			op.Result(false, &mcp.CallToolResult{})
			return Outcome{Fate: FateSent}
		}},
		"tool error": {live: func(_ context.Context, op *Operation) Outcome {
			op.Error(errPrivate)
			op.Result(true, nil)
			return Outcome{Fate: FateSent}
		}},
		"error": {live: func(context.Context, *Operation) Outcome {
			return Outcome{Fate: FateSent, Err: mcp.NewError(mcp.CodeInternalError, "no \x07")}
		}},
		"caller's error": {live: func(context.Context, *Operation) Outcome {
			return Outcome{Fate: FateSent, Err: mcp.NewError(mcp.CodeInvalidParams, "no")}
		}},
		"panic": {live: func(_ context.Context, op *Operation) Outcome {
			op.Panicked("boom", []byte("a stack"))
			return Outcome{Err: mcp.NewError(mcp.CodeInternalError, "internal error")}
		}},
		"cancelled": {live: func(_ context.Context, op *Operation) Outcome {
			op.Cancelled(mcp.CauseClientCancel, "bored")
			return Outcome{Dropped: mcp.DropCancelled}
		}},
		"deadline": {live: func(_ context.Context, op *Operation) Outcome {
			op.Cancelled(mcp.CauseDeadline, "")
			op.Abandoned(Outcome{})
			return Outcome{Dropped: mcp.DropCancelled}
		}},
		"dropped": {live: func(_ context.Context, op *Operation) Outcome {
			op.NotificationDropped(mcp.NotificationMessage, mcp.DropQueueFull)
			return Outcome{Dropped: mcp.DropWriteTimeout}
		}},
		"rejected by a rule": {live: func(_ context.Context, op *Operation) Outcome {
			err, _ := mcp.AsError(&mcp.Refusal{Status: http.StatusTooManyRequests, Reason: "quota", By: "calls"})
			return Outcome{Rejected: mcp.RejectRefused, Err: err}
		}},
		"rejected arguments": {live: func(_ context.Context, op *Operation) Outcome {
			op.ArgumentsRejected("/n: must be an integer")
			return Outcome{ToolError: true}
		}},
		"decided": {live: func(_ context.Context, op *Operation) Outcome {
			op.Decided("weather only", "allow", "because")
			return Outcome{Fate: FateSent}
		}},
		"subscription": {info: func(i *Info) { i.Method, i.Target = mcp.MethodSubscriptionsListen, "" }, live: func(_ context.Context, op *Operation) Outcome {
			op.Acknowledged()
			op.Cancelled(mcp.CauseServerShutdown, "")
			return Outcome{SubscriptionEnd: mcp.EndServerShutdown, Dropped: mcp.DropWriteTimeout}
		}},
		"log": {live: func(_ context.Context, op *Operation) Outcome {
			for i := range 2 * maxSpanEvents {
				op.Log(mcp.LogInfo, "db", fmt.Sprint("line ", i))
			}
			return Outcome{Fate: FateSent}
		}},
		"what a handler sets": {live: func(ctx context.Context, _ *Operation) Outcome {
			span := trace.SpanFromContext(ctx)
			span.SetAttributes(attribute.Int("rows", 1), attribute.String("mcp.method.name", "mine"), attribute.KeyValue{})
			span.SetAttributes(attribute.Int("rows", 2), attribute.StringSlice("tables", []string{"a", "b\x07"}))
			span.AddEvent("step", trace.WithAttributes(attribute.Bool("cached", true)))
			span.RecordError(errPrivate)
			span.RecordError(nil)
			span.SetStatus(codes.Error, "half of it")
			span.SetName("renamed")
			span.AddLink(trace.Link{SpanContext: someSpan})
			return Outcome{Fate: FateSent}
		}},
		"final status": {live: func(ctx context.Context, _ *Operation) Outcome {
			span := trace.SpanFromContext(ctx)
			span.SetStatus(codes.Ok, "ignored")
			span.SetStatus(codes.Error, "too late")
			return Outcome{Fate: FateSent, Err: mcp.NewError(mcp.CodeInternalError, "no")}
		}},
		"many attributes": {live: func(ctx context.Context, _ *Operation) Outcome {
			for i := range 2 * maxSpanAttributes {
				trace.SpanFromContext(ctx).SetAttributes(attribute.Int(fmt.Sprint("a", i), i))
			}
			return Outcome{Fate: FateSent}
		}},
		"children": {live: func(ctx context.Context, op *Operation) Outcome {
			tracer := op.series.tel.provider.Tracer("user")
			ctx, outer := tracer.Start(ctx, "outer")
			_, inner := tracer.Start(ctx, "inner")
			inner.End()
			outer.End()
			_, other := tracer.Start(ctx, "other trace", trace.WithNewRoot())
			other.End()
			return Outcome{Fate: FateSent, Err: mcp.NewError(mcp.CodeInternalError, "no")}
		}},
		"more children than a trace may have": {options: []Option{WithRecent(Recent{Spans: 3})}, live: func(ctx context.Context, op *Operation) Outcome {
			for range 5 {
				_, span := op.series.tel.provider.Tracer("user").Start(ctx, "child")
				span.End()
			}
			return Outcome{Fate: FateSent}
		}},
		"task": {live: func(ctx context.Context, op *Operation) Outcome {
			ctx, task := op.series.tel.BeginTask(ctx, "weather", "0123")
			_, span := op.series.tel.provider.Tracer("user").Start(ctx, "in the task")
			span.End()
			trace.SpanFromContext(ctx).RecordError(errPrivate)
			task.Cancelled(mcp.CauseClientCancel, "bored")
			task.Panicked("boom", []byte("a stack"))
			task.Error(errPrivate)
			task.End(Outcome{TaskStatus: mcp.TaskFailed, Err: mcp.NewError(mcp.CodeInternalError, "no")})
			task.span.SetName("late")
			task.span.End()
			return Outcome{Fate: FateSent}
		}},
		"abandoned task": {live: func(ctx context.Context, op *Operation) Outcome {
			_, task := op.series.tel.BeginTask(ctx, "weather", "0123")
			task.Abandoned(Outcome{TaskStatus: mcp.TaskCancelled, Cancelled: &mcp.CancelError{Cause: mcp.CauseServerShutdown}})
			task.End(Outcome{TaskStatus: mcp.TaskCancelled, Cancelled: &mcp.CancelError{Cause: mcp.CauseServerShutdown}})
			return Outcome{Fate: FateSent}
		}},
		"questions to the client": {live: func(ctx context.Context, op *Operation) Outcome {
			info := weatherCall()
			withHTTP(&info)
			info.Method = mcp.MethodRootsList
			meta, end := op.series.tel.Ask(ctx, info)
			if !strings.HasPrefix(meta["traceparent"], "00-"+op.TraceID()) || !strings.HasSuffix(meta["traceparent"], "-01") {
				panic(meta["traceparent"])
			}
			end(mcp.IntID(1), nil)
			_, end = op.series.tel.Ask(ctx, info)
			end(mcp.IntID(2), &mcp.ClientError{Code: -1, Message: "no \x07"})
			return Outcome{Fate: FateSent}
		}},
		"notifications of its trace": {live: func(_ context.Context, op *Operation) Outcome {
			parent := fmt.Sprintf("00-%s-%s-01", op.TraceID(), op.SpanContext().SpanID())
			inner, kept := op.series.tel.Begin(context.Background(), Info{Method: mcp.MethodPing, Carrier: propagation.MapCarrier{mcp.MetaTraceParent: parent}})
			kept.End(Outcome{Fate: FateDropped, Dropped: mcp.DropWriteTimeout})
			_, done := op.series.tel.Notification(inner, Info{Method: mcp.NotificationProgress, Version: mcp.LatestVersion})
			done()
			return Outcome{Fate: FateSent}
		}},
	}
}

// A firstContact is a request that opens a session. It is an [Origin] that knows more at the end.
type firstContact struct{ now, later Info }

func (c *firstContact) Describe() Info { return c.now }

var sampledSpan = someSpan.WithTraceFlags(trace.FlagsSampled)

func withHTTP(i *Info) {
	i.Transport, i.Network, i.Protocol, i.ProtocolVersion, i.RemoteAddr = "http", "tcp", "http", "1.1", "192.0.2.7:4711"
	i.SessionID = "a secret"
	i.Header = http.Header{"Traceparent": {"00-0000000000000000000000000000000c-000000000000000c-01"}}
}

// pageOfLife returns what the page of an operation shows of it, without ids and times.
func pageOfLife(t *testing.T, tel *Telemetry, info Info, l lifeRow) (d report.TraceDetail, op *Operation) {
	t.Helper()
	if info.Origin != nil {
		info.Series, info.ArrivedAt = tel.Series(info.Method, info.Target), time.Now()
	}
	ctx, op := tel.Begin(trace.ContextWithSpanContext(t.Context(), l.ambient), info)
	op.End(l.live(ctx, op))
	var id string
	for _, row := range page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces {
		if row.SpanID == op.SpanContext().SpanID().String() {
			id = row.ID
		}
	}
	require.NotEmpty(t, id)
	mux := http.NewServeMux()
	mux.Handle("/debug/traces/{id}", tel.TracesHandler())
	d = page[report.TraceDetail](t, mux, "/debug/traces/"+id)
	names := map[string]string{"": "", d.SpanID: "the operation", someSpan.SpanID().String(): "ambient", callerParent[36:52]: "caller"}
	for _, s := range d.Spans {
		if s.SpanID != d.SpanID {
			names[s.SpanID] = s.Name
		}
	}
	for i := range d.Spans {
		s := &d.Spans[i]
		require.Contains(t, names, s.Parent)
		s.SpanID, s.Parent, s.AfterSeconds, s.Seconds = names[s.SpanID], names[s.Parent], 0, 0
		for j := range s.Events {
			s.Events[j].AfterSeconds = 0
		}
		for j := range s.Attributes {
			if key := s.Attributes[j].Key; key == string(keyQueueWait) || key == string(keyCancelUnwind) {
				s.Attributes[j].Value = "a time"
			}
		}
	}
	slices.SortFunc(d.Spans, func(a, b report.Span) int { return strings.Compare(a.Name+a.SpanID, b.Name+b.SpanID) })
	require.Equal(t, op.TraceID(), d.TraceID)
	if d.TraceID != callerTrace && d.TraceID != sampledSpan.TraceID().String() {
		d.TraceID = "new"
	}
	for i := range d.Phases {
		d.Phases[i].AfterSeconds, d.Phases[i].Seconds = 0, 0
	}
	d.ID, d.SpanID, d.At, d.Seconds, d.CancelledAfterSeconds = "", "", time.Time{}, 0, 0
	return d, op
}

// TestPagesShowTheSame checks that pages show the same of an operation whose span is recorded by us as of
// one whose span is the SDK's.
func TestPagesShowTheSame(t *testing.T) {
	for name, l := range lives() {
		t.Run(name, func(t *testing.T) {
			setSampler(t, "", "")
			start := func() *Telemetry {
				tel, err := New(append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, l.options...)...)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
				return tel
			}
			info := func() Info {
				i := weatherCall()
				if l.info != nil {
					l.info(&i)
				}
				return i
			}
			own, reference := start(), start()
			reference.sampling = nil
			saw, op := pageOfLife(t, own, info(), l)
			require.IsType(t, &recordedSpan{}, op.span)
			want, op := pageOfLife(t, reference, info(), l)
			require.Implements(t, (*sdktrace.ReadWriteSpan)(nil), op.span)
			require.NotEmpty(t, want.Spans)
			require.Equal(t, want, saw)
			count := func(tel *Telemetry) float64 { return sum(gather(t, tel.Registry()), MetricTraceSpansLeftOut) }
			require.Equal(t, count(reference), count(own))
		})
	}
}

// TestSpansOfTheSDKAreExported checks that the SDK makes the span of an operation if it is sampled and
// spans are exported, and only then.
func TestSpansOfTheSDKAreExported(t *testing.T) {
	for _, sampler := range []string{"", "always_on", "always_off"} {
		t.Run(sampler, func(t *testing.T) {
			setSampler(t, sampler, "")
			tel, err := New()
			require.NoError(t, err)
			one := func() (sdk bool) {
				info := weatherCall()
				info.Carrier = nil
				ctx, op := tel.Begin(t.Context(), info)
				_, task := tel.BeginTask(ctx, "weather", "0123")
				task.End(Outcome{TaskStatus: mcp.TaskCompleted})
				_, done := tel.Notification(t.Context(), Info{Method: mcp.NotificationProgress})
				done()
				op.End(Outcome{})
				_, sdk = op.span.(sdktrace.ReadWriteSpan)
				_, same := task.span.(sdktrace.ReadWriteSpan)
				require.Equal(t, sdk, same)
				return sdk
			}
			require.False(t, one())
			exporter := tracetest.NewInMemoryExporter()
			require.True(t, tel.ExportSpans(exporter))
			require.Equal(t, sampler != "always_off", one())
			require.NoError(t, tel.owned.ForceFlush(t.Context()))
			if sampler != "always_off" {
				require.Len(t, exporter.GetSpans(), 3)
			}
			require.NoError(t, tel.Shutdown(t.Context()))
		})
	}
}

// TestRecordedSpanEndsWithItsOperation checks that a handler cannot end the span of its request, and that
// the span takes nothing any more when the operation has ended, also if a goroutine of the handler goes on.
func TestRecordedSpanEndsWithItsOperation(t *testing.T) {
	setSampler(t, "", "")
	tel, err := New()
	require.NoError(t, err)
	ctx, op := tel.Begin(t.Context(), weatherCall())
	span := trace.SpanFromContext(ctx)
	span.End()
	require.True(t, span.IsRecording())
	var busy sync.WaitGroup
	begun, ended := make(chan struct{}, 4), make(chan struct{})
	for i := range cap(begun) {
		busy.Go(func() {
			for n := 0; ; n++ {
				span.SetAttributes(attribute.Int("worker", i))
				span.AddEvent("step")
				span.SetStatus(codes.Error, "worse")
				span.SetName("renamed")
				if n == 0 {
					begun <- struct{}{}
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	op.End(Outcome{Fate: FateSent})
	close(ended)
	busy.Wait()
	require.False(t, span.IsRecording())
	span.SetAttributes(attribute.String("late", "yes"))
	span.AddEvent("late")
	span.SetName("late")
	span.SetStatus(codes.Ok, "")
	span.RecordError(errPrivate)
	mux := http.NewServeMux()
	mux.Handle("/debug/traces/{id}", tel.TracesHandler())
	row := page[report.TraceDetail](t, mux, "/debug/traces/1").Spans[0]
	require.Equal(t, "renamed", row.Name)
	require.Equal(t, []any{"Error", "worse"}, []any{row.Status, row.StatusText})
	for _, e := range row.Events {
		require.Equal(t, "step", e.Name)
	}
	for _, a := range row.Attributes {
		require.NotEqual(t, "late", a.Key)
	}
	require.Equal(t, trace.SpanContextFromContext(ctx), span.SpanContext())
}

// TestInnerSpanOfALateExport checks that a task is exported if the export began after its call.
func TestInnerSpanOfALateExport(t *testing.T) {
	setSampler(t, "", "")
	tel, err := New()
	require.NoError(t, err)
	ctx, op := tel.Begin(t.Context(), weatherCall())
	exporter := tracetest.NewInMemoryExporter()
	require.True(t, tel.ExportSpans(exporter))
	_, task := tel.BeginTask(ctx, "weather", "0123")
	task.End(Outcome{TaskStatus: mcp.TaskCompleted})
	op.End(Outcome{})
	require.NoError(t, tel.owned.ForceFlush(t.Context()))
	spans := exporter.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, op.SpanContext().SpanID(), spans[0].Parent.SpanID())
	require.NoError(t, tel.Shutdown(t.Context()))
}

// TestTimeOfAQuestion checks that the span of a question has the times of the clock of telemetry.
func TestTimeOfAQuestion(t *testing.T) {
	setSampler(t, "", "")
	now := time.Now()
	tel, err := New(WithClock(func() time.Time { return now }))
	require.NoError(t, err)
	ctx, op := tel.Begin(t.Context(), weatherCall())
	now = now.Add(time.Hour)
	_, end := tel.Ask(ctx, Info{Method: mcp.MethodRootsList})
	now = now.Add(2 * time.Second)
	end(mcp.IntID(1), nil)
	op.End(Outcome{})
	mux := http.NewServeMux()
	mux.Handle("/debug/traces/{id}", tel.TracesHandler())
	spans := page[report.TraceDetail](t, mux, "/debug/traces/1").Spans
	require.Len(t, spans, 2)
	require.Equal(t, mcp.MethodRootsList, spans[1].Name)
	require.EqualValues(t, 2, spans[1].Seconds)
	require.Greater(t, spans[1].AfterSeconds, 3000.0)
}
