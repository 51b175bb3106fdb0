package soak

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

var (
	duration = flag.Duration("soak", 4*time.Second, "how long the clients are let loose")
	clients  = flag.Int("clients", 200, "about how many clients there are")
)

// warmUp fills the caches, pools and label sets, so that later growth is a leak.
const warmUp = 3 * time.Second

// slack is the number of bytes by which the heap may grow after the warm-up. Bounded and
// small growth is allowed: exemplars and native histogram buckets of new magnitudes
// (telemetry), and the pools of net/http and of the JSON package. A leak
// of one request in a thousand would be above it after a million requests, since a
// request with its frame and context takes more than 8 KiB.
const slack = 6 << 20

// TestSoak runs the soak.
func TestSoak(t *testing.T) {
	w := newWorld(t)
	w.letLoose(warmUp, *clients/2)
	w.rest(t)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	begin, peak := time.Now(), w.letLoose(*duration, *clients)
	took := time.Since(begin)
	w.replayAlone()
	w.rest(t)
	w.conserved(t)
	t.Log("\n" + w.summary(took, peak))
	if n := settledGoroutines(goroutines); n > goroutines {
		t.Errorf("%d goroutines at rest, %d after the warm-up:\n%s", n, goroutines, stacks())
	}
	grown := heapInUse() - heap
	t.Logf("goroutines: %d after the warm-up, %d now; heap: %d KiB after the warm-up, %+d KiB now",
		goroutines, runtime.NumGoroutine(), heap>>10, grown>>10)
	if grown > slack {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	w.shutdown(t)
	w.conserved(t)
	noLeaks(t)
	for _, fault := range slices.Sorted(maps.Keys(w.faults)) {
		t.Errorf("%d times: %s", w.faults[fault], fault)
	}
}

// letLoose runs all kinds of clients for a while and returns the largest number of
// requests that were seen in flight.
func (w *world) letLoose(d time.Duration, n int) (peak int) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	kinds := []struct {
		share int // of 100
		run   func(context.Context)
	}{
		{20, w.modernEcho}, {6, w.modernMix}, {5, w.modernVanish}, {3, w.rawHTTP}, {2, w.httpGarbage},
		{12, w.legacyEcho}, {5, w.legacyAsk}, {4, w.legacyCancel}, {9, w.legacyDrop}, {4, w.legacyResume},
		{10, w.pipeEcho}, {4, w.pipeReuse}, {4, w.pipeCancel}, {4, w.pipeAsk}, {5, w.pipeGo}, {2, w.pipeDeaf},
		{2, w.pipeFlood}, {3, w.pipeGarbage},
	}
	var all sync.WaitGroup
	for _, k := range kinds {
		for range max(1, k.share*n/100) {
			all.Go(func() { k.run(ctx) })
		}
	}
	for ctx.Err() == nil {
		rep := w.report()
		peak = max(peak, len(rep.Requests))
		dropped := uint64(0)
		for _, k := range rep.Totals.Dropped {
			dropped += k
		}
		open := int64(rep.Totals.Admitted) - int64(rep.Totals.Sent+rep.Totals.Stored+dropped)
		if open < 0 || open > int64(len(rep.Requests)) {
			w.fault("in the middle: %d requests have no fate, %d are in flight", open, len(rep.Requests))
		}
		time.Sleep(50 * time.Millisecond)
	}
	all.Wait()
	w.pipes.Wait()
	return peak
}

// replayAlone has stored answers fetched, and others expire, if a busy machine has refused nearly all calls
// for which that could happen.
func (w *world) replayAlone() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { w.legacyResume(ctx) })
	}
	for ctx.Err() == nil && !w.replayed() {
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	all.Wait()
}

// rest waits until nothing is in flight and no session is left.
func (w *world) rest(t *testing.T) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		rep := w.report()
		if len(rep.Requests)+len(rep.Outbound)+len(rep.Sessions) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("not at rest: %d requests, %d outbound, %d sessions: %+v %+v",
				len(rep.Requests), len(rep.Outbound), len(rep.Sessions), rep.Requests, rep.Sessions)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shutdown drains the servers, which are at rest, and closes its listener.
func (w *world) shutdown(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, srv := range []*server.Server{w.srv, w.hasty} {
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}
	if err := w.http.Shutdown(ctx); err != nil {
		t.Errorf("http.Server.Shutdown: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// heapInUse returns the size of the reachable heap. Pools free their values in two
// collections.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settledGoroutines waits a moment for goroutines that are about to end: those of
// net/http end after the clients have closed their connections.
func settledGoroutines(want int) (n int) {
	for range 200 {
		if n = runtime.NumGoroutine(); n <= want {
			return n
		}
		time.Sleep(20 * time.Millisecond)
	}
	return n
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// noLeaks checks for goroutines that nothing can wake, if the toolchain supports it, and for
// goroutines of Vitrine.
func noLeaks(t *testing.T) {
	t.Helper()
	var left []string
	for range 100 {
		left = left[:0]
		for _, g := range strings.Split(stacks(), "\n\n") {
			if strings.Contains(g, "vitrine-mcp/vitrine/") && !strings.Contains(g, "soak.TestSoak") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("%d goroutines of ours are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
	leaks := pprof.Lookup("goroutineleak")
	if leaks == nil {
		t.Log("no goroutine-leak profile in this toolchain (GOEXPERIMENT=goroutineleakprofile)")
		return
	}
	var b bytes.Buffer
	if err := leaks.WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	n := strings.Count(b.String(), "(leaked)")
	t.Logf("goroutine-leak profile: %d leaked", n)
	if n > 0 {
		t.Errorf("leaked goroutines:\n%s", b.String())
	}
}

// summary is the table of the run.
func (w *world) summary(took time.Duration, peak int) string {
	m := w.scrape()
	var b strings.Builder
	row := func(name string, v any) { fmt.Fprintf(&b, "%-44s %v\n", name, v) }
	rows := func(title string, values map[string]float64) {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			row(title+" "+k, int64(values[k]))
		}
	}
	admitted := m.sum(telemetry.MetricRequestsAdmitted)
	row("duration", took.Round(time.Millisecond))
	row("requests that clients have sent", w.calls.Load())
	row("requests admitted", int64(admitted))
	row("answers sent", int64(m.sum(telemetry.MetricResponsesSent)))
	rows("answers dropped", m.by(telemetry.MetricResponsesDropped, "reason"))
	rows("cancelled", m.by(telemetry.MetricRequestsCancelled, "cause"))
	rows("rejected", m.by(telemetry.MetricRequestsRejected, "reason"))
	rows("received", m.by(telemetry.MetricMessagesReceived, "kind"))
	rows("ignored", m.by(telemetry.MetricFramesIgnored, "reason"))
	rows("notifications dropped", m.by(telemetry.MetricNotificationsDropped, "reason"))
	rows("limit reached", m.by(telemetry.MetricLimitReached, "limit"))
	rows("sessions closed", m.by(telemetry.MetricSessionsClosed, "cause"))
	row("panics", int64(m.sum(telemetry.MetricHandlerPanics)))
	row("handlers abandoned", int64(m.sum(telemetry.MetricHandlersAbandoned)))
	row("peak in flight (seen)", peak)
	return b.String()
}
