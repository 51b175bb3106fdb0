package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A legacy call goes on when its caller has hung up. Such callers hold their share of the slots, and
// not all.
func TestCallersThatHungUpHoldOnlyTheirShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args            []string
		sessions, calls int
		share           float64
	}{
		"few slots":    {[]string{"--max-in-flight-total", "512", "--max-queue", "512"}, 6, 200, shareOf(512)},
		"the defaults": {nil, 16, 256, shareOf(4096)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t, c.args...)
			undisturbed := s.others(t)
			sessions := s.hangUp(t, c.sessions, c.calls)
			s.awaitLargest(t, c.share)
			began := time.Now()
			undisturbed()
			if took := time.Since(began); took > 15*time.Second { // after 30 the calls end
				t.Errorf("others were served after %v", took)
			}
			for _, c := range sessions {
				c.must(t, http.MethodDelete, c.sessionHeader(), "")
			}
		})
	}
}

// largestShare is how many slots the caller with the most holds.
const largestShare = `vitrine_share_largest{limit="max_in_flight_total"}`

// shareOf returns how many of the slots one caller gets, beside a reserve and the two of others.
func shareOf(slots int) float64 { return float64(slots - slots/16 - 2) }

// awaitLargest waits until the caller with the most slots holds a number of them.
func (s *target) awaitLargest(t *testing.T, want float64) {
	t.Helper()
	eventually(t, func() error {
		if held := s.metrics(t)[largestShare]; held != want {
			return fmt.Errorf("the largest caller holds %.0f slots, want %.0f", held, want)
		}
		return nil
	})
}

// A call without its caller ends after a time, and its slot is free.
func TestCallsWithoutACallerEnd(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--max-in-flight-total", "64", "--max-queue", "64", "--orphan-grace", "1s")
	undisturbed := s.others(t)
	s.hangUp(t, 2, 20)
	s.awaitInFlight(t, "sleep", 2) // those of others
	undisturbed()
}

// hangUp opens legacy sessions, makes calls of ten minutes in them, and hangs up. It returns when
// calls are in flight, and then their callers have gone.
func (s *target) hangUp(t *testing.T, sessions, calls int) (callers []*caller) {
	t.Helper()
	for range sessions {
		c := s.caller(t, attacker, "")
		c.initialize(t)
		callers = append(callers, c)
		for id := range calls {
			raw := s.rawEcho(id).without("MCP-Protocol-Version").without("Mcp-Method").without("Mcp-Name").with("Mcp-Session-Id: " + c.session)
			raw.body = call{tool: "sleep", arguments: `{"ms":600000}`}.frame(id, false)
			w := s.wire(t, attacker)
			if _, err := io.WriteString(w, raw.String()); err != nil {
				t.Fatal(err)
			}
			w.Close()
		}
	}
	eventually(t, func() error {
		n, err := s.inFlight("sleep")
		if err == nil && n < 10 {
			err = fmt.Errorf("%d calls are in flight", n)
		}
		return err
	})
	return callers
}

// One caller with as many calls as it can send does not keep others from being served: neither those of other addresses nor,
// if callers say who they are, those of the same one. All addresses of an IPv6 network are one caller.
func TestOneCallerHoldsOnlyItsShare(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		args         []string
		greedy       func(call int) string // a line of the header
		modest, from string
		share        float64
	}{
		"an address":      {nil, nil, "", bystanders, shareOf(512)},
		"a principal":     {nil, func(int) string { return "Authorization: Bearer bob" }, "ann", attacker, shareOf(512)},
		"an IPv6 network": {[]string{"--trusted-proxies", attacker}, forwardedNetwork, "", bystanders, shareOf(512)},
		"a bound":         {[]string{"--max-in-flight-per-caller", "3"}, nil, "", bystanders, 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := attacked(t, append(c.args, "--max-in-flight-total", "512", "--max-queue", "512")...)
			undisturbed := s.others(t)
			s.hold(t, 1200, "sleep", c.greedy)
			s.awaitLargest(t, c.share)
			modest := s.caller(t, c.from, c.modest)
			for i := range 50 {
				if r := modest.modern(t, i, call{tool: "echo", arguments: `{"text":"mine"}`}); r.text() != "mine" {
					t.Fatalf("call %d of another caller: %d %s", i, r.status, r.body)
				}
			}
			for _, method := range []string{"server/discover", "tools/list"} {
				if r := modest.modern(t, 1, call{method: method}); r.Result == nil {
					t.Errorf("%s: %d %s", method, r.status, r.body)
				}
			}
			undisturbed()
		})
	}
}

// forwardedNetwork is the header line with which a proxy says that a call is of an address of an IPv6 network.
func forwardedNetwork(call int) string { return fmt.Sprintf("X-Forwarded-For: 2001:db8::%x", call) }

// Calls that wait for one class, and fill the queue, leave room there for calls of other tools. Each caller has only one
// call, so that none of them waits for too much.
func TestAStuckClassLeavesRoomInTheQueue(t *testing.T) {
	t.Parallel()
	const queue, modest = 64, 10
	s := attacked(t, "--max-in-flight-total", "8", "--max-queue", fmt.Sprint(queue))
	undisturbed := s.others(t)
	s.hold(t, queue+4, "scarce", func(call int) string { return fmt.Sprint("Authorization: Bearer mallory-", call) })
	s.awaitInFlight(t, "scarce", queue+4) // four run
	var last []*pending                   // the last two slots
	for i := range 2 {
		sleep := call{tool: "sleep", arguments: `{"ms":600000}`}
		last = append(last, s.caller(t, bystanders, fmt.Sprint("ann-", i)).begin(t, sleep.header(), sleep.frame(1, true)))
	}
	s.awaitInFlight(t, "sleep", 4)
	var waiting []*pending
	for i := range modest {
		what := echo("mine")
		waiting = append(waiting, s.caller(t, bystanders, fmt.Sprint("ben-", i)).begin(t, what.header(), what.frame(1, true)))
	}
	s.awaitInFlight(t, "scarce", queue+4-modest)
	s.awaitInFlight(t, "echo", modest)
	for _, p := range last {
		p.cancel()
	}
	for i, p := range waiting {
		if r := p.wait(t); r.text() != "mine" {
			t.Errorf("call %d of another tool: %d %s", i, r.status, r.body)
		}
	}
	undisturbed()
}

// Of a tool that says so a caller runs no more than a number at once, however few others there are.
func TestOneCallerHoldsNoMoreOfAToolThanItMay(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	s.hold(t, 20, "scarce", nil)
	rep, err := s.report()
	running := 0
	for _, r := range rep.Requests {
		if r.Tool == "scarce" && r.State == "running" {
			running++
		}
	}
	if err != nil || running != 2 {
		t.Errorf("%v: %d calls of one caller run, want 2", err, running)
	}
	c := s.caller(t, bystanders, "")
	if r := c.modern(t, 1, call{tool: "scarce", arguments: `{"ms":1,"text":"mine"}`}); r.text() != "mine" {
		t.Errorf("another caller: %d %s", r.status, r.body)
	}
	undisturbed()
}

// hold makes n calls of a tool that sleeps, each over a connection of its own and with a line of the header, unless that is
// nil. It returns when each runs, waits, or was refused. They end with the test.
func (s *target) hold(t *testing.T, n int, tool string, line func(call int) string) {
	t.Helper()
	for i := range n {
		sleep := s.rawEcho(1).set("Mcp-Name", tool)
		if line != nil {
			sleep = sleep.with(line(i))
		}
		sleep.body = call{tool: tool, arguments: `{"ms":600000}`}.frame(1, true)
		w := s.wire(t, attacker)
		if _, err := io.WriteString(w, sleep.String()); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := s.inFlight("")
	eventually(t, func() error { // until the number does not grow any more
		time.Sleep(100 * time.Millisecond)
		now, err := s.inFlight("")
		if err == nil && (now != before || now < 10) {
			err = fmt.Errorf("%d calls are in flight", now)
		}
		before = now
		return err
	})
}

// A flood of handshakes, finished or not, ends no session of another caller.
func TestHandshakesOfOneCallerEvictNobodyElse(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]bool{"that are not finished": false, "that are finished": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t, "--max-sessions", "100")
			undisturbed := s.others(t)
			var idle []*caller
			for i := range 10 {
				c := s.caller(t, fmt.Sprintf("127.0.0.%d", 10+i), "")
				c.initialize(t)
				idle = append(idle, c)
			}
			flood := s.caller(t, attacker, "")
			for range 300 {
				r := flood.must(t, http.MethodPost, plainHeader(), initializeFrame)
				if flood.session = r.header.Get("Mcp-Session-Id"); finish && flood.session != "" {
					flood.notify(t, `"notifications/initialized","params":{}`)
				}
			}
			for i, c := range idle {
				if r := c.legacy(t, 1, call{tool: "echo", arguments: `{"text":"mine"}`}); r.text() != "mine" {
					t.Errorf("the idle session of caller %d: %d %s", i, r.status, r.body)
				}
			}
			undisturbed()
		})
	}
}

// At the largest number of sessions a handshake costs about what it costs below.
func TestHandshakesOfAFullServerAreCheap(t *testing.T) {
	t.Parallel()
	const most, n = 4000, 300
	s := attacked(t, "--max-sessions", fmt.Sprint(most))
	undisturbed := s.others(t)
	open := func(n int) time.Duration {
		w := s.wire(t, attacker)
		raw := rawRequest{line: "POST /mcp HTTP/1.1", body: initializeFrame,
			header: []string{"Host: " + s.host, "Content-Type: application/json", "Accept: application/json, text/event-stream"}}.String()
		before := s.cpu(t)
		for range n {
			if _, err := io.WriteString(w, raw); err != nil {
				t.Fatal(err)
			}
			if r, err := w.response(); err != nil || r.status/100 == 5 && r.status != http.StatusServiceUnavailable {
				t.Fatalf("%v %d %s", err, r.status, r.body)
			}
		}
		return max(s.cpu(t)-before, 30*time.Millisecond) // which is little, in units of 10 ms
	}
	open(n) // warms up
	below := open(n)
	open(most)
	if full := open(n); full > 5*below {
		t.Errorf("%d handshakes take %v of CPU, and with %d sessions %v", n, below, most, full)
	}
	undisturbed()
}

// A server whose slots are all held, and whose queue is full, is not ready. It still answers those
// who connect, and is ready again when the calls have ended.
func TestAFullServerIsNotReady(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--max-in-flight-total", "16", "--max-queue", "16", "--saturation-grace", "300ms")
	ann := s.caller(t, bystanders, "ann")
	task := ann.detached(t, job(600_000, 0))
	var held []*wire
	for i := range 32 {
		sleep := s.rawEcho(1).set("Mcp-Name", "sleep")
		sleep.body = call{tool: "sleep", arguments: `{"ms":600000}`}.frame(1, true)
		for range 4 {
			w := s.wire(t, fmt.Sprintf("127.0.0.%d", 100+i))
			if _, err := io.WriteString(w, sleep.String()); err != nil {
				t.Fatal(err)
			}
			held = append(held, w)
		}
	}
	ready := func(want int) {
		t.Helper()
		eventually(t, func() error {
			resp, body, err := s.get("/readyz")
			if err == nil && (resp.StatusCode != want || want != http.StatusOK && !strings.Contains(body, "saturation")) {
				err = fmt.Errorf("/readyz: %d %s, want %d", resp.StatusCode, body, want)
			}
			return err
		})
	}
	ready(http.StatusServiceUnavailable)
	c := s.caller(t, bystanders, "")
	c.initialize(t)
	if r := c.modern(t, 1, call{method: "server/discover"}); r.Result == nil {
		t.Errorf("server/discover: %d %s", r.status, r.body)
	}
	if r := c.legacy(t, 1, call{method: "ping"}); r.Result == nil {
		t.Errorf("ping: %d %s", r.status, r.body)
	}
	if r := ann.modern(t, 1, about("tasks/cancel", task, "")); r.Result == nil {
		t.Errorf("tasks/cancel: %d %s", r.status, r.body)
	}
	for _, w := range held {
		w.Close()
	}
	ready(http.StatusOK)
}

// One caller with as many subscriptions as it can open leaves room for those of others.
func TestSubscriptionsOfOneCallerLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--max-subscriptions", "64")
	undisturbed := s.others(t)
	listen := call{method: "subscriptions/listen", params: `"notifications":{"toolsListChanged":true}`}
	raw := s.rawEcho(1).set("Mcp-Method", listen.method).without("Mcp-Name")
	raw.body = listen.frame(1, true)
	refused := 0
	for range 100 {
		w := s.wire(t, attacker)
		if _, err := io.WriteString(w, raw.String()); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(w.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			continue // the stream stays open
		}
		body, err := io.ReadAll(resp.Body)
		if r := decoded(resp, body); err != nil || r.limit() != "max_subscriptions" {
			t.Errorf("%v %d %s", err, r.status, r.body)
		}
		refused++
	}
	if refused < 100-64 {
		t.Errorf("%d of 100 subscriptions were refused, and 64 may be open", refused)
	}
	late := s.caller(t, bystanders, "olga").openStream(t, http.MethodPost, listen.header(), listen.frame(1, true))
	if first := late.next(t); late.status != http.StatusOK || first.Error != nil {
		t.Errorf("the subscription of another caller: %d %+v", late.status, first)
	}
	undisturbed()
}

// One caller with as many tasks as it can start leaves room for those of others.
func TestRunningTasksOfOneCallerLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--max-running-tasks", "32")
	undisturbed := s.others(t)
	bob, refused := s.caller(t, attacker, "bob"), 0
	for i := range 50 {
		switch r := bob.modern(t, i, job(600_000, 0)); {
		case r.limit() == "max_running_tasks" && r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "":
			refused++
		case r.Result == nil || r.Result.TaskID == "":
			t.Errorf("task %d: %d %s", i, r.status, r.body)
		}
	}
	if refused < 50-32 {
		t.Errorf("%d of 50 tasks were refused, and 32 may run", refused)
	}
	s.caller(t, attacker, "ann").detached(t, job(600_000, 0))
	undisturbed()
}

// The results of one caller's tasks do not push out those of another.
func TestTasksOfOneCallerPushOutNobodyElse(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, bystanders, "ann")
	small := ann.detached(t, job(0, 1000))
	eventually(t, func() error {
		if r := ann.modern(t, 1, about("tasks/get", small, "")); r.Result == nil || r.Result.Status != "completed" {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
		return nil
	})
	for i := range 5 {
		bob := s.caller(t, attacker, fmt.Sprint("bob-", i))
		for range 20 {
			bob.modern(t, 1, job(0, 1<<20))
		}
	}
	if r := ann.modern(t, 1, about("tasks/get", small, "")); r.Result == nil || r.Result.Status != "completed" {
		t.Errorf("the small result of another caller: %d %s", r.status, r.body)
	}
	undisturbed()
}

// The events that one caller keeps for later do not push out those of another.
func TestEventsOfOneCallerPushOutNobodyElse(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	talk := func(c *caller, messages, bytes int) *stream {
		c.initialize(t)
		c.legacy(t, "level", call{method: "logging/setLevel", params: `"level":"debug"`})
		what := call{tool: "chatter", arguments: fmt.Sprintf(`{"messages":%d,"bytes":%d}`, messages, bytes)}
		return c.openStream(t, http.MethodPost, c.sessionHeader(), what.frame("talk", false))
	}
	ann := s.caller(t, bystanders, "ann")
	first := talk(ann, 20, 100)
	first.next(t)
	first.cancel()
	s.awaitInFlight(t, "chatter", 0)
	for i := range 5 {
		bob := s.caller(t, attacker, fmt.Sprint("bob-", i))
		for range 4 {
			talk(bob, 5, 1<<20).cancel()
		}
	}
	s.awaitInFlight(t, "chatter", 0)
	h := ann.sessionHeader()
	h.Set("Accept", "text/event-stream")
	h.Set("Last-Event-Id", first.lastID)
	rest := ann.openStream(t, http.MethodGet, h, "")
	for {
		a := rest.next(t)
		if a.text() == "said" {
			break
		}
	}
	undisturbed()
}
