package servers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Promises returns servers that keep more and more of the promises of Vitrine for a request,
// written by hand in the simplest way. They show the cost of the promises themselves. The first
// servers promise nothing, the last ones are Vitrine, and the very last one serves no [Legacy].
func Promises() []Kind {
	return slices.Concat(named(Bare, Floor), promisingKinds(), named("vitrine-off", "vitrine", Default, Service))
}

func promisingKinds() []Kind {
	kind := func(name, title string, level int) Kind {
		return Kind{Name: name, Title: title, New: func(tools int) (Server, error) { return newPromising(tools, level), nil }}
	}
	return []Kind{
		kind("floor-bounded", "… with a deadline for each read and write, and the loss of an answer noticed", bounded),
		kind("floor-cancelled", "… and a handler that may panic or hang, and is cancelled with a cause", cancelled),
		kind("floor-counted", "… and counted, timed, limited, and seen while it lives", counted),
		{Name: Promised, Title: "… and checked as the specification demands, with sessions and a share for each caller (another JSON library)", New: newCompleteEcho},
	}
}

// named returns the kinds with these names, which must exist.
func named(names ...string) (kinds []Kind) {
	for _, name := range names {
		k, err := Find(name)
		if err != nil {
			panic(err)
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// The levels of promises. Each includes those before.
const (
	bounded = iota
	cancelled
	counted
)

// promiseTime is the deadline of every wait.
const promiseTime = 30 * time.Second

var (
	errOver = errors.New("the request is over")
	errGone = errors.New("the client is gone")
	errLate = errors.New("the deadline is over")
)

type promising struct {
	*floor
	level int

	slots  chan struct{}
	series map[string]*series // by tool, or by method

	mu   sync.Mutex // guards live and last
	live map[uint64]*liveCall
	last uint64
}

// series are the metrics of the calls of a tool, or of the requests with another method.
type series struct {
	began, ended          prometheus.Counter
	took, asked, answered prometheus.Observer
}

// A liveCall describes a call in flight for the operator.
type liveCall struct {
	method, tool, remote string
	since                time.Time
	done                 atomic.Bool
}

func newPromising(tools, level int) Server {
	p := &promising{floor: newFloorServer(tools), level: level, slots: make(chan struct{}, 1000), live: map[uint64]*liveCall{}, series: newSeries(Echo)}
	return Server{Modern: p, Legacy: p}
}

// newSeries makes the series of tools and of methods without a tool.
func newSeries(tools ...string) map[string]*series {
	registry := prometheus.NewRegistry()
	counters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total"}, []string{"name", "what"})
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "call_seconds", NativeHistogramBucketFactor: 1.1}, []string{"name"})
	sizes := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "call_bytes", Buckets: prometheus.ExponentialBuckets(64, 4, 9)}, []string{"name", "way"})
	registry.MustRegister(counters, times, sizes)
	all := map[string]*series{}
	for _, name := range append(tools, "initialize", "notifications/initialized", "tools/list", "DELETE") {
		all[name] = &series{
			began: counters.WithLabelValues(name, "began"), ended: counters.WithLabelValues(name, "ended"),
			took:  times.WithLabelValues(name),
			asked: sizes.WithLabelValues(name, "in"), answered: sizes.WithLabelValues(name, "out"),
		}
	}
	return all
}

func (p *promising) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	frame, err := p.serve(w, r, func(ctx context.Context, body []byte) ([]byte, error) { return p.answer(ctx, body, r) })
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	counts := p.series[Echo]
	if p.level < counted {
		counts = nil
	}
	p.write(w, frame, counts)
}

// write writes an answer, and counts it if it was not lost. counts may be nil.
func (p *promising) write(w http.ResponseWriter, frame []byte, counts *series) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(promiseTime)) // an error means that the server has no deadlines
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(frame)))
	_, err := w.Write(frame)
	if lost := errors.Join(err, rc.Flush()); lost == nil && counts != nil {
		counts.ended.Inc()
		counts.answered.Observe(float64(len(frame)))
	}
	_ = rc.SetWriteDeadline(time.Time{})
}

// serve reads the request and returns its answer.
func (p *promising) serve(w http.ResponseWriter, r *http.Request, answer func(ctx context.Context, body []byte) ([]byte, error)) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(promiseTime))
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, err
	}
	_, _ = r.Body.Read(make([]byte, 1)) // the end of the body, after which net/http notices a disconnect
	_ = rc.SetReadDeadline(time.Time{})
	if p.level < cancelled {
		return answer(r.Context(), body)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(errOver)
	defer time.AfterFunc(promiseTime, func() { cancel(errLate) }).Stop()
	type outcome struct {
		frame []byte
		err   error
	}
	out := make(chan outcome, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				out <- outcome{nil, errors.New("internal error")}
			}
		}()
		frame, err := answer(ctx, body)
		out <- outcome{frame, err}
	}()
	select {
	case got := <-out:
		return got.frame, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.Context().Done():
		cancel(errGone)
		return nil, errGone
	}
}

// answer decodes a message, executes it and encodes the answer.
func (p *promising) answer(ctx context.Context, body []byte, r *http.Request) ([]byte, error) {
	var req floorRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, err
	}
	if p.level >= counted {
		leave, err := p.enter(ctx, p.series[Echo], req.Method, req.Params.Name, len(body), r)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	answer, err := p.handle(&req, func(any) error { return errors.New("a promising server reports nothing") })
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// enter registers a call when it has a slot, and returns a function for its end.
func (p *promising) enter(ctx context.Context, counts *series, method, tool string, size int, r *http.Request) (leave func(), err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	call := &liveCall{method: method, tool: tool, remote: r.RemoteAddr, since: time.Now()}
	p.mu.Lock()
	p.last++
	n := p.last
	p.live[n] = call
	p.mu.Unlock()
	counts.began.Inc()
	counts.asked.Observe(float64(size))
	return func() {
		call.done.Store(true)
		counts.took.Observe(time.Since(call.since).Seconds())
		p.mu.Lock()
		delete(p.live, n)
		p.mu.Unlock()
		<-p.slots
	}, nil
}
