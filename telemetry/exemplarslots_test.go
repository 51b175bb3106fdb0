package telemetry

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// What is collected has the exemplars that client_golang would have made: the latest of
// each bucket, also of the one without a bound. The native histogram has all of them.
func TestExemplarSlotsHaveTheLatest(t *testing.T) {
	opts := prometheus.HistogramOpts{Name: "x", Buckets: operationBuckets(), NativeHistogramBucketFactor: 1.1}
	reference, ours := prometheus.NewHistogram(opts), prometheus.NewHistogram(opts)
	slots := &exemplarSlots{}
	require.Same(t, ours, slots.attach(ours), "there is no exemplar yet")
	source := rand.New(rand.NewPCG(5, 6))
	last := map[string]trace.SpanContext{} // by value
	at := time.Now()
	values := append([]float64{0, 1e9}, exemplarBounds...)
	for range 1000 {
		values = append(values, exemplarBounds[source.IntN(len(exemplarBounds))]*source.Float64()*2)
	}
	source.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	ids := &idGenerator{source.Uint64}
	for _, v := range values {
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: ids.traceID(), SpanID: ids.spanID(), TraceFlags: trace.FlagsSampled})
		at = at.Add(time.Millisecond)
		last[strconv.FormatFloat(v, 'g', -1, 64)] = sc
		observe(reference, v, sc)
		ours.Observe(v)
		slots.put(v, sc, at)
	}
	var want, got dto.Metric
	require.NoError(t, reference.Write(&want))
	require.NoError(t, slots.attach(ours).Write(&got))
	require.Len(t, got.GetHistogram().GetBucket(), len(want.GetHistogram().GetBucket()))
	found := 0
	for i, bucket := range want.GetHistogram().GetBucket() {
		other := got.GetHistogram().GetBucket()[i]
		require.Equal(t, bucket.GetUpperBound(), other.GetUpperBound())
		require.Equal(t, bucket.GetCumulativeCount(), other.GetCumulativeCount())
		if e := bucket.GetExemplar(); e != nil {
			found++
			require.Equal(t, e.GetValue(), other.GetExemplar().GetValue(), "bucket %v", bucket.GetUpperBound())
			requireExemplar(t, other.GetExemplar(), last[strconv.FormatFloat(e.GetValue(), 'g', -1, 64)])
		}
	}
	require.Equal(t, len(operationBuckets())+1, found)
	require.Len(t, got.GetHistogram().GetExemplars(), len(exemplarBounds)+1)
	latest := got.GetHistogram().GetExemplars()[len(exemplarBounds)]
	require.True(t, latest.GetTimestamp().AsTime().Equal(at))
}

// Exemplars are put while others are collected. A span has one whatever its outcome is, and
// a notification's, too.
func TestOperationsHaveExemplars(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	r := finished(t, call("echo"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				op := &Operation{series: tel.Series(r.Route.Series.Method, r.Route.Series.Target)}
				op.start(t.Context(), &Info{})
				op.operated(operationKey{errorType: errorTool}, time.Now(), time.Millisecond)
				_, err := tel.Registry().Gather()
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	in := call("")
	in.Method = mcp.NotificationCancelled
	ctx, done := TestBridge.Observer(tel).Notified(t.Context(), in, nil)
	done()
	families := gather(t, tel.Registry())
	require.NotEmpty(t, exemplarTrace(find(families, MetricOperationDuration, map[string]string{"error_type": errorTool}).GetHistogram()))
	require.Equal(t, trace.SpanContextFromContext(ctx).TraceID().String(), exemplarTrace(
		find(families, MetricOperationDuration, map[string]string{"mcp_method_name": mcp.NotificationCancelled}).GetHistogram()))
}
