package telemetry

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A reader is the response writer of a listener.
type reader struct {
	mu     sync.Mutex
	header http.Header
	status int
	text   bytes.Buffer
	block  chan struct{} // Write waits for it
	done   chan struct{} // the handler has returned
	leave  context.CancelFunc
}

func (r *reader) Header() http.Header    { return r.header }
func (r *reader) Flush()                 {}
func (r *reader) WriteHeader(status int) { r.status = status }

func (r *reader) Write(b []byte) (int, error) {
	if r.block != nil {
		<-r.block
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// frames returns what has arrived.
func (r *reader) frames(t *testing.T) (frames []report.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var f report.Frame
			require.NoError(t, json.Unmarshal([]byte(data), &f))
			frames = append(frames, f)
		}
	}
	return frames
}

// watchLive opens a stream.
func watchLive(tel *Telemetry, block chan struct{}) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{header: http.Header{}, status: 200, block: block, done: make(chan struct{}), leave: cancel}
	req, _ := http.NewRequestWithContext(ctx, "GET", "/debug/live", nil)
	go func() {
		defer close(r.done)
		tel.LiveHandler().ServeHTTP(r, req)
	}()
	synctest.Wait()
	return r
}

// TestLiveFrames checks that the first frame has everything and the next ones the changes. Rates
// are differences of counters.
func TestLiveFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := hanging(t)
		r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) {
			time.Sleep(10 * time.Millisecond)
			return nil, errPrivate
		}
		r.postAside(call("fail"))
		l := watchLive(r.tel, nil)
		require.Equal(t, "text/event-stream", l.Header().Get("Content-Type"))
		frames := l.frames(t)
		require.Len(t, frames, 1)
		f := frames[0]
		require.EqualValues(t, 1, f.Seq)
		require.Nil(t, f.Rates)
		require.Len(t, f.Requests.Rows, 1)
		require.Equal(t, "hang", f.Requests.Rows[0].Tool)
		require.Equal(t, "client_cancel", f.Requests.Rows[0].CancelCause)
		require.Equal(t, map[string]int{"queued": 0, "running": 0, "blocked": 0, "writing": 0, "cancelled": 1, "listening": 0}, f.InFlight)
		require.EqualValues(t, 1, f.Totals.Cancelled["client_cancel"])
		require.EqualValues(t, 1, f.Errors)
		require.Equal(t, "fail", f.Traces.Rows[0].Tool)
		require.Zero(t, f.Tools.Rows[0].WindowSeconds)
		require.InEpsilon(t, 0.01, f.Tools.Rows[0].P50, 0.125)

		for range 6 {
			r.postAside(call("fail"))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		frames = l.frames(t)
		require.Len(t, frames, 3)
		f = frames[1]
		require.InDelta(t, 6, f.Rates["admitted"], 0.01)
		require.InDelta(t, 6, f.Rates["errors"], 0.01)
		require.Zero(t, f.Rates["cancelled"])
		require.Len(t, f.Traces.Rows, 6)
		require.Equal(t, 7, f.Kept["error"])
		require.InDelta(t, 1, f.Tools.Rows[0].WindowSeconds, 0.01)
		require.InDelta(t, 6, f.Tools.Rows[0].Rate, 0.01)
		require.Zero(t, frames[2].Rates["admitted"])
		require.Empty(t, frames[2].Traces.Rows)

		time.Sleep(2 * time.Minute)
		synctest.Wait()
		frames = l.frames(t)
		require.Zero(t, frames[len(frames)-1].Tools.Rows[0].WindowSeconds, "nothing in the last minute")
		l.leave()
		<-l.done
		release()
	})
}

// postAside is post beside a request that hangs.
func (r *rig) postAside(in *session.Inbound) {
	st := r.core.Exchange(in.Conn, 1, mcp.Modern)
	r.core.Receive(in, st)
	_ = st.Pump(&sink{})
	synctest.Wait()
}

// TestLiveIsSharedAndIdle checks that all listeners share one snapshot a second, and that none
// is taken without listeners.
func TestLiveIsSharedAndIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		src := &countedSource{Source: sourceOf(session.New(session.Config{}))}
		tel.AddSource(src)
		time.Sleep(time.Hour)
		require.Zero(t, src.asked)
		listeners := []*reader{watchLive(tel, nil), watchLive(tel, nil), watchLive(tel, nil)}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 11, src.asked)
		for _, l := range listeners {
			require.Len(t, l.frames(t), 11)
			l.leave()
			<-l.done
		}
		asked := src.asked
		time.Sleep(time.Hour)
		require.Equal(t, asked, src.asked)
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// TestSlowListener checks that a slow listener misses frames and does not delay the others.
func TestSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		fast, gate := watchLive(tel, nil), make(chan struct{})
		slow := watchLive(tel, gate)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, fast.frames(t), 11)
		close(gate)
		synctest.Wait()
		frames := slow.frames(t)
		require.Len(t, frames, 1, "it has room for one")
		require.EqualValues(t, 10, value(gather(t, tel.Registry()), MetricLiveFramesSkipped))
		time.Sleep(time.Second)
		synctest.Wait()
		frames = slow.frames(t)
		require.EqualValues(t, 12, frames[1].Seq, "and goes on with the present")
		require.NoError(t, tel.Shutdown(t.Context()))
		<-fast.done
		<-slow.done
	})
}

// TestTooManyListeners checks that the refusal names the limit and is counted.
func TestTooManyListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New(WithLiveListeners(2))
		require.NoError(t, err)
		a, b := watchLive(tel, nil), watchLive(tel, nil)
		c := watchLive(tel, nil)
		<-c.done
		require.Equal(t, 503, c.status)
		require.Equal(t, "5", c.Header().Get("Retry-After"))
		require.Contains(t, c.text.String(), "live_listeners")
		families := gather(t, tel.Registry())
		require.EqualValues(t, 1, value(families, MetricLiveRefused))
		require.EqualValues(t, 2, value(families, MetricLiveListeners))
		a.leave()
		<-a.done
		d := watchLive(tel, nil)
		require.Equal(t, 200, d.status)
		for _, l := range []*reader{b, d} {
			l.leave()
			<-l.done
		}
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// TestLiveEnds checks that shutdown ends the streams at once, and that none is opened afterwards.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tel := range []*Telemetry{Disabled(), newTelemetry(t)} {
			l := watchLive(tel, nil)
			began := time.Now()
			require.NoError(t, tel.Shutdown(t.Context()))
			<-l.done
			require.Zero(t, time.Since(began))
			require.NotEmpty(t, l.frames(t))
			late := watchLive(tel, nil)
			<-late.done
			require.Equal(t, 503, late.status)
		}
	})
}

func newTelemetry(t *testing.T) *Telemetry {
	tel, err := New()
	require.NoError(t, err)
	return tel
}

// broken fails after some writes.
type broken struct {
	*reader
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("gone")
	}
	return b.reader.Write(p)
}

// TestListenerIsGone checks that a failed write ends the stream.
func TestListenerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t)
		b := &broken{reader: &reader{header: http.Header{}}, left: 3}
		req, err := http.NewRequest("GET", "/debug/live", nil)
		require.NoError(t, err)
		tel.LiveHandler().ServeHTTP(b, req) // returns
		require.Len(t, b.frames(t), 2)
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// TestLatencySketch checks that the error of a quantile is at most an eighth between a
// microsecond and minutes. Values outside of these bounds count as the nearest bound.
func TestLatencySketch(t *testing.T) {
	for d := 1100 * time.Nanosecond; d < 15*time.Minute; d = d * 11 / 10 {
		var s latencySketch
		s.observe(d, false)
		c := s.read()
		require.InEpsilon(t, d.Seconds(), c.quantile(0.5), 0.125, d)
	}
	var s latencySketch
	for _, d := range []time.Duration{-1, 0, 1, time.Millisecond, time.Hour} {
		s.observe(d, d == 0)
	}
	c := s.read()
	require.EqualValues(t, 5, c.total())
	require.EqualValues(t, 1, s.errors.Load())
	require.Less(t, c.quantile(0.1), 2e-6)
	require.Greater(t, c.quantile(0.99), 900.0)
	require.Zero(t, new(latencyCounts).quantile(0.5))
}

// The frames of a process have its ID, and the next process has another ID.
func TestFramesNameTheirProcess(t *testing.T) {
	one, two := newFrameMaker(newRig(t, rigConfig{}).tel), newFrameMaker(newRig(t, rigConfig{}).tel)
	first := one.next().Process
	require.NotEmpty(t, first)
	require.Equal(t, first, one.next().Process)
	require.NotEqual(t, first, two.next().Process)
}
