package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A situation is how to bring a server into the trouble that a question is about.
type situation struct {
	args, env []string
	stdio     bool
	// issuer: the server accepts tokens of an issuer. {dir} in args is the folder of server.log.
	issuer bool
	// replicas: the server shares a store with another replica.
	replicas bool
	// down: the collector does not answer.
	down bool
	// prepare runs before the first scrape.
	prepare func(*testing.T, *drill)
	// provoke lets it happen n times.
	provoke func(t *testing.T, d *drill, n int)
	// during runs while the operator looks at values that are not counted, until end is called.
	during func(*testing.T, *drill) (end func())
}

// situations are those of the questions, by their titles.
func situations() map[string]situation {
	return map[string]situation{
		"A tool hangs": {
			args:    []string{"--max-request-timeout", "2s", "--flight-recorder", "--flight-slow", "500ms"},
			provoke: hang, during: keepHanging,
		},
		"A client cancels everything": {stdio: true, provoke: cancelAll},
		"A reader does not read": {
			args: []string{"--write-timeout", "1s", "--log-level", "debug"}, provoke: stall, during: keepStalling,
		},
		"A handler ignores its context": {
			args:    []string{"--cleanup-grace", "200ms", "--abandon-grace", "500ms", "--flight-recorder"},
			provoke: ignoreContext, during: killAfter,
		},
		"A peer vanishes": {args: []string{"--orphan-grace", "200ms"}, provoke: vanish},
		"A rolling restart cuts calls": {
			args: []string{"--drain-timeout", "10m"}, provoke: restart, during: keepDraining,
		},
		"Sessions leak": {args: []string{"--max-sessions", "3", "--initialize-timeout", "1h"}, provoke: leak},
		"One tenant floods the server": {
			args: []string{"--max-in-flight-total", "5", "--max-queue", "4"}, provoke: flood,
		},
		"Callers are over a rate limit": {
			args: []string{"--rate-limits", "calls 3/1d per address methods tools/call"}, provoke: callTooOften,
		},
		"The results of a tool grew":             {prepare: smallResults, provoke: bigResults},
		"Clients of another version are refused": {provoke: newVersion},
		"A schema rejects everything": {
			env: []string{"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"}, provoke: badArguments,
		},
		"Everybody gets 401":                    {issuer: true, provoke: wrongAudience},
		"One client gets 403":                   {issuer: true, provoke: lackScope},
		"The issuer is down":                    {issuer: true, prepare: stopIssuer, provoke: askStoppedIssuer},
		"Who did this?":                         {issuer: true, args: []string{"--audit-file", "{dir}/audit.jsonl"}, provoke: leaveRecords},
		"A replica was lost":                    {replicas: true, provoke: loseReplica},
		"One replica is cut off from the store": {replicas: true, provoke: cutOff},
		"The store has lost values":             {replicas: true, provoke: loseEvents},
		"The store refuses some operations":     {replicas: true, provoke: fillStore},
		"The collector is down": {
			down: true, args: []string{"--flush-timeout", "1s"}, env: []string{"OTEL_EXPORTER_OTLP_TIMEOUT=100"},
			provoke: export, during: collect,
		},
	}
}

// from sets the client name of a request.
func from(client string, r request) request {
	return r.with("io.modelcontextprotocol/clientInfo", object{"name": client, "version": "1"})
}

// hold begins n requests and waits until they run.
func (d *drill) hold(t *testing.T, n int, headers http.Header, next func(i int) request) (all []*pending) {
	t.Helper()
	for i := range n {
		r := next(i)
		h := headers
		if h == nil {
			h = r.headers()
		}
		all = append(all, d.begin(t, h, r.frame()))
	}
	d.awaitReport(t, "running", func(rep *report) int { return rep.InFlight["running"] }, n)
	return all
}

// awaitReport waits until a number of the report is the wanted one.
func (d *drill) awaitReport(t *testing.T, what string, number func(*report) int, want int) {
	t.Helper()
	eventually(t, func() error {
		rep, err := d.requests()
		if err == nil && number(rep) != want {
			err = fmt.Errorf("%s: %d, want %d", what, number(rep), want)
		}
		return err
	})
}

// total reads a number of the report.
func (d *drill) total(t *testing.T, number func(*report) int) (n int) {
	t.Helper()
	eventually(t, func() error {
		rep, err := d.requests()
		if err == nil {
			n = number(rep)
		}
		return err
	})
	return n
}

func dropAll(all []*pending) {
	for _, p := range all {
		p.drop()
	}
}

func hang(t *testing.T, d *drill, n int) {
	var calls []*pending
	for i := range n {
		calls = append(calls, d.begin(t, sleeping(i).headers(), sleeping(i).frame()))
	}
	for _, p := range calls {
		if a := p.wait(t); !strings.Contains(a.body, "deadline") {
			t.Errorf("the call that hung: %s", a.body)
		}
	}
}

func keepHanging(t *testing.T, d *drill) (end func()) {
	return repeat(t, func(ctx context.Context, client *http.Client) {
		r := sleeping(1)
		_, _ = d.trySend(ctx, client, http.MethodPost, r.headers(), r.frame()) // an error: the end
	})
}

// repeat does something over and over again, until its end.
func repeat(t *testing.T, do func(context.Context, *http.Client)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := httpClient(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			do(ctx, client)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func cancelAll(t *testing.T, d *drill, n int) {
	p := connect(d.server)
	for i := range n {
		id := fmt.Sprint(n, i)
		p.write(t, from("impatient", sleeping(id)).frame())
		p.awaitRunning(t, "sleep")
		p.write(t, request{method: "notifications/cancelled", params: object{"requestId": id, "reason": "changed my mind"}}.frame())
		d.settled(t)
	}
}

// stalled sends a call and does not read the answer, which is larger than the buffers of the
// kernel.
func (d *drill) stalled() (net.Conn, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(d.mcp, "http://"), "/mcp")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	r := call(1, "big", object{"bytes": 16 << 20})
	if err = conn.(*net.TCPConn).SetReadBuffer(4096); err == nil {
		var head strings.Builder
		h := r.headers()
		h.Set("Host", host)
		h.Set("Content-Length", fmt.Sprint(len(r.frame())))
		_ = h.Write(&head) // to memory
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\n%s\r\n%s", head.String(), r.frame())
	}
	if err != nil {
		conn.Close()
	}
	return conn, err
}

func stall(t *testing.T, d *drill, n int) {
	cut := func(rep *report) int { return int(rep.Totals.Dropped["write_timeout"]) }
	before := d.total(t, cut)
	for range n {
		conn, err := d.stalled()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	d.awaitReport(t, "cut off", cut, before+n)
}

func keepStalling(t *testing.T, d *drill) (end func()) {
	return repeat(t, func(ctx context.Context, _ *http.Client) {
		if conn, err := d.stalled(); err == nil {
			defer conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second): // the server waits for one, also if it is slow
		}
	})
}

func ignoreContext(t *testing.T, d *drill, n int) {
	abandoned := func(rep *report) int { return int(rep.Totals.Abandoned["client_disconnect"]) }
	before := d.total(t, abandoned)
	dropAll(d.hold(t, n, nil, func(i int) request {
		return call(i, "sleep", object{"ms": 600_000, "stubborn": true})
	}))
	d.awaitReport(t, "abandoned", abandoned, before+n)
}

// killAfter ends a server whose handlers never return.
func killAfter(t *testing.T, d *drill) (end func()) { return func() { d.kill(t) } }

func vanish(t *testing.T, d *drill, n int) {
	gone := func(rep *report) int { return int(rep.Totals.Dropped["stream_gone"]) }
	before := d.total(t, gone)
	session := d.initialize(t)
	dropAll(d.hold(t, n, session.headers(), func(i int) request { return sleeping(i).inLegacy() }))
	d.awaitReport(t, "stream_gone", gone, before+n)
}

// restart replaces a server twice: one that is hurried by a second signal after it has
// refused n calls, and one that has less time than its calls take.
func restart(t *testing.T, d *drill, n int) {
	if n == 1 {
		return // all series are there from the beginning
	}
	for i := range 3 {
		d.post(t, call(i, "echo", object{"text": "x"}))
	}
	d.hold(t, 2, nil, func(i int) request { return sleeping(i) })
	d.signal(t, syscall.SIGTERM)
	for range n {
		eventually(t, func() error {
			if a := d.post(t, call(1, "echo", object{"text": "late"})); a.status != http.StatusServiceUnavailable {
				return fmt.Errorf("not refused: %d %s", a.status, a.body)
			}
			return nil
		})
	}
	d.prom.scraped(t, d.server)
	d.signal(t, syscall.SIGTERM)
	d.exited(t, 0, 1)

	admin := d.instance()
	d.server = d.start(t, "--drain-timeout", "1s", "--admin-addr", admin)
	calls := d.hold(t, 2, nil, func(i int) request { return sleeping(i) })
	d.signal(t, syscall.SIGTERM)
	for _, p := range calls {
		if a := p.wait(t); !strings.Contains(a.body, "server_shutdown") {
			t.Errorf("the call that was cut: %s", a.body)
		}
	}
	d.exited(t, 0)
	d.server = d.start(t, "--drain-timeout", "10m", "--admin-addr", admin)
}

// keepDraining lets the last server drain until the end.
func keepDraining(t *testing.T, d *drill) (end func()) {
	d.hold(t, 1, nil, func(i int) request { return sleeping(i) })
	d.signal(t, syscall.SIGTERM)
	return func() {
		d.signal(t, syscall.SIGTERM)
		d.exited(t, 0, 1)
	}
}

func leak(t *testing.T, d *drill, n int) {
	for range 2 * n {
		r := initializeRequest()
		r.params["clientInfo"] = object{"name": "leaky", "version": "1"}
		if a := d.post(t, r); a.status != http.StatusOK {
			t.Fatalf("initialize: %d %s", a.status, a.body)
		}
	}
}

// flood fills all slots and the queue, and goes on.
func flood(t *testing.T, d *drill, n int) {
	if n == 1 {
		d.hold(t, 1, nil, func(int) request { return from("tenant-b", sleeping(1)) })
		for i := range 7 {
			r := from("tenant-a", sleeping(i))
			d.begin(t, r.headers(), r.frame())
		}
		d.awaitReport(t, "queued", func(rep *report) int { return rep.InFlight["queued"] }, 4)
		return
	}
	for i := range n {
		if a := d.post(t, from("tenant-a", sleeping(i))); a.status != http.StatusTooManyRequests {
			t.Errorf("call %d too many: %d %s", i, a.status, a.body)
		}
	}
}

// callTooOften uses up what a rate limit allows, and goes on.
func callTooOften(t *testing.T, d *drill, n int) {
	want := http.StatusTooManyRequests
	if n == 1 {
		n, want = 3, http.StatusOK
	}
	for i := range n {
		if a := d.post(t, from("greedy", call(i, "echo", object{"text": "x"}))); a.status != want {
			t.Errorf("call %d: %d %s, want %d", i, a.status, a.body, want)
		}
	}
}

func results(t *testing.T, d *drill, n, bytes int) {
	for i := range n {
		if a := d.post(t, call(i, "big", object{"bytes": bytes})); len(a.text()) != bytes {
			t.Errorf("big: %d %.200s", a.status, a.body)
		}
	}
}

func smallResults(t *testing.T, d *drill)      { results(t, d, 20, 300) }
func bigResults(t *testing.T, d *drill, n int) { results(t, d, n, 200_000) }

func newVersion(t *testing.T, d *drill, n int) {
	for i := range n {
		r := from("newcomer", call(i, "echo", object{"text": "x"})).with("io.modelcontextprotocol/protocolVersion", "2031-01-01")
		h := r.headers()
		h.Set("MCP-Protocol-Version", "2031-01-01")
		if a := d.send(t, http.MethodPost, h, r.frame()); a.code() != codeVersion {
			t.Errorf("the version of tomorrow: %d %s", a.status, a.body)
		}
	}
}

func badArguments(t *testing.T, d *drill, n int) {
	for i := range n {
		r := from("confused", call(i, "json_schema_2020_12_tool", object{"nam": "x"}))
		if a := d.post(t, r); a.Result == nil || !a.Result.IsError {
			t.Errorf("wrong arguments: %s", a.body)
		}
	}
}

func export(t *testing.T, d *drill, n int) {
	const lost = "vitrine_telemetry_spans_dropped_total"
	before := d.metrics(t).sum(lost)
	for i := range n {
		d.post(t, call(i, "echo", object{"text": "x"}))
	}
	eventually(t, func() error {
		if got := d.metrics(t).sum(lost); got != before+float64(n) {
			return fmt.Errorf("%v spans were lost, want %v", got-before, n)
		}
		return nil
	})
}

// collect starts the collector that was missing.
func collect(t *testing.T, d *drill) (end func()) {
	l, err := net.Listen("tcp", strings.TrimPrefix(d.otlp.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	collector := &http.Server{Handler: d.otlp, ReadHeaderTimeout: patience}
	var wg sync.WaitGroup
	wg.Go(func() { _ = collector.Serve(l) }) // until it is closed
	d.post(t, call(1, "echo", object{"text": "x"}))
	return func() {
		collector.Close()
		wg.Wait()
	}
}
