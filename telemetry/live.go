package telemetry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

const (
	limitLiveListeners   = "live_listeners"
	defaultLiveListeners = 16

	liveInterval = time.Second
	// liveWriteTimeout is how long a write to a listener may take. After it the stream ends.
	liveWriteTimeout = 10 * time.Second
	// liveRetry is how long a listener should wait before it connects again.
	liveRetry = 5 * time.Second
)

var (
	errTooManyListeners = errors.New("telemetry: as many consoles as " + limitLiveListeners + " allows are open")
	errLiveEnded        = errors.New("telemetry: the process is shutting down")
)

// live computes one frame per second for all listeners. It computes none without listeners.
type live struct {
	t       *Telemetry
	process string // see [report.Frame]
	limit   int
	ended   chan struct{} // closed at the shutdown

	mu        sync.Mutex // guards the rest
	over      bool
	listeners map[*listener]struct{}
	last      []byte // the latest frame
	run       *liveRun
}

// A liveRun is a goroutine that computes frames. The last listener to leave ends it.
type liveRun struct{ stop, done chan struct{} }

// A listener has room for one frame. While the frame is not read, the listener misses others.
type listener struct{ frames chan []byte }

func newLive(t *Telemetry, limit int) *live {
	if limit <= 0 {
		limit = defaultLiveListeners
	}
	return &live{t: t, process: rand.Text(), limit: limit, ended: make(chan struct{}), listeners: map[*listener]struct{}{}}
}

// join adds a listener. The first listener starts the goroutine. The others get the latest
// frame at once.
func (l *live) join() (*listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return nil, errLiveEnded
	case len(l.listeners) >= l.limit:
		return nil, errTooManyListeners
	}
	who := &listener{frames: make(chan []byte, 1)}
	l.listeners[who] = struct{}{}
	if l.run == nil {
		l.run = &liveRun{stop: make(chan struct{}), done: make(chan struct{})}
		go l.compute(l.run)
	} else if l.last != nil {
		who.frames <- l.last
	}
	return who, nil
}

// leave removes a listener. The last listener ends the goroutine.
func (l *live) leave(who *listener) {
	l.mu.Lock()
	delete(l.listeners, who)
	var run *liveRun
	if len(l.listeners) == 0 {
		run, l.run, l.last = l.run, nil, nil
	}
	l.mu.Unlock()
	if run != nil {
		close(run.stop)
		<-run.done
	}
}

// compute makes the frames of one run.
func (l *live) compute(run *liveRun) {
	defer close(run.done)
	maker := newFrameMaker(l.t)
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	for {
		l.turn(run, maker)
		select {
		case <-ticker.C:
		case <-run.stop:
			return
		}
	}
}

// turn makes one frame.
func (l *live) turn(run *liveRun, maker *frameMaker) {
	defer l.t.contain("live frame")
	l.send(run, maker.next())
}

// send gives a frame to the listeners that have room for it.
func (l *live) send(run *liveRun, frame *report.Frame) {
	event := frame.Event()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != run {
		return // the listeners of this run have left
	}
	l.last = event
	for who := range l.listeners {
		select {
		case who.frames <- event:
		default:
			l.t.count(MetricLiveFramesSkipped)
		}
	}
}

// shutdown ends all streams. New ones are refused.
func (l *live) shutdown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.ended)
	}
}

// LiveHandler serves the data of the console as a stream of server-sent events. Each event is a
// frame in JSON. The first frame comes at once, then one per second. A frame is computed once for
// all listeners. A slow listener misses frames; after 10 seconds without reading its stream
// ends. With too many listeners (see [WithLiveListeners]) the answer is 503.
//
// [Telemetry.Shutdown] ends the streams. Call it before the shutdown of the HTTP server, which
// waits for them.
func (t *Telemetry) LiveHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			w.Header().Set("Allow", "GET")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		who, err := t.live.join()
		if err != nil {
			if errors.Is(err, errTooManyListeners) {
				t.count(MetricLiveRefused)
			}
			w.Header().Set("Retry-After", strconv.Itoa(int(liveRetry.Seconds())))
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer t.live.leave(who)
		if t.metrics != nil {
			listeners := t.metrics.gauge(MetricLiveListeners)
			listeners.Inc()
			defer listeners.Dec()
		}
		t.live.serve(w, req, who)
	})
}

// serve writes frames until the client goes away or telemetry shuts down.
func (l *live) serve(w http.ResponseWriter, req *http.Request, who *listener) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	rc := http.NewResponseController(w)
	put := func(event []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(liveWriteTimeout)) // not every writer supports deadlines
		_, err := w.Write(event)
		return err == nil && rc.Flush() == nil
	}
	ok := put(fmt.Appendf(nil, "retry: %d\n\n", liveRetry.Milliseconds()))
	for ok {
		select {
		case event := <-who.frames:
			ok = put(event)
		case <-req.Context().Done():
			return
		case <-l.ended:
			return
		}
	}
}
