package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// unitFile is a deployment behind nginx. The test ends its replicas with these settings.
const unitFile = "../deploy/systemd/vitrine.service"

// drainSettings returns the variables of the unit for the end of a replica, which waits for a last
// scrape.
func drainSettings(t *testing.T) (env []string) {
	t.Helper()
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SHUTDOWN_DELAY", "DRAIN_TIMEOUT", "REFUSE_TIME", "LINGER_TIMEOUT"} {
		m := regexp.MustCompile(`(?m)^Environment=(VITRINE_` + name + `=\S+)$`).FindSubmatch(unit)
		if m == nil {
			t.Fatalf("%s does not set VITRINE_%s", unitFile, name)
		}
		env = append(env, string(m[1]))
	}
	return env
}

// A rollout is a set of replicas that are replaced one after the other, while a Prometheus
// scrapes them.
type rollout struct {
	env     []string
	servers []*server
	pushed  []*receiver // the last push of each
	prom    *prometheus
	begun   time.Time // before there was anything to scrape
}

// scrapeInterval is longer than the end of a process that waits for nothing.
const scrapeInterval = time.Second

// startRollout starts two replicas. The slow tool in the configuration of the proxy has none.
func startRollout(t *testing.T, env ...string) *rollout {
	needs.Long(t, "e2e/rolling restart")
	needs.Tool(t, "e2e/nginx", "nginx")
	needs.Tool(t, "e2e/prometheus", "prometheus")
	r := &rollout{env: env, servers: make([]*server, 2), pushed: make([]*receiver, 2), begun: time.Now()}
	for i := range r.servers {
		addr := replicaAddress()
		r.start(t, i, addr, adminAddress(addr))
	}
	r.prom = scrape(t, scrapeInterval, "exemplar-storage", r.servers...)
	for _, s := range r.servers {
		r.prom.scraped(t, s)
	}
	return r
}

// adminAddress returns the admin address of a replica, and of the next one in its place.
func adminAddress(addr string) string {
	host, _, _ := strings.Cut(addr, ":")
	return host + ":9464"
}

// end ends all replicas at once, because each takes its time.
func (r *rollout) end(t *testing.T) {
	t.Helper()
	for _, s := range r.servers {
		s.awaitSubscriptions(t, 0)
		s.settled(t)
		s.signal(t, syscall.SIGTERM)
	}
	for _, s := range r.servers {
		s.exited(t, 0)
	}
}

func (r *rollout) start(t *testing.T, i int, addr, admin string) {
	t.Helper()
	r.pushed[i] = receive(t)
	r.servers[i] = serveHTTP(t, withArgs("--addr", addr, "--admin-addr", admin), withEnv(r.env...), r.pushed[i].env())
}

// restart ends a replica and starts another one in its place. It returns the number of cut calls in
// the last push of the replica.
func (r *rollout) restart(t *testing.T, i int) (cut int) {
	t.Helper()
	s, pushed := r.servers[i], r.pushed[i]
	s.signal(t, syscall.SIGTERM)
	s.exited(t, 0)
	if err := pushed.missing("vitrine.requests.cancelled", "vitrine.responses.dropped"); err != nil {
		t.Fatalf("replica %d has not pushed its last metrics: %v", i, err)
	}
	cut = int(pushed.sum("vitrine.requests.cancelled", "vitrine.cancel.cause", "server_shutdown"))
	pushed.conserved(t)
	left := 0
	for _, line := range s.stderr.snapshot() {
		if isRecord("drain.left")(line) {
			left++
		}
	}
	if left < cut { // some that it names may have come to their end just then
		t.Errorf("the log of replica %d names %d calls that it did not wait for, and it has cut %d", i, left, cut)
	}
	s.checkScraped(t)
	r.start(t, i, strings.TrimSuffix(strings.TrimPrefix(s.mcp, "http://"), "/mcp"), s.instance())
	return cut
}

// checkScraped checks that a process has ended when its last figures had been scraped.
func (s *server) checkScraped(t *testing.T) {
	t.Helper()
	if !slices.ContainsFunc(s.stderr.snapshot(), func(line string) bool {
		return isRecord("linger.end")(line) && strings.Contains(line, `"scraped":1,"missing":0`)
	}) {
		t.Errorf("the last figures of %s were not scraped", s.instance())
	}
}

// checkPanel checks the dashboard for the whole rollout. The scrapes of a target follow each other:
// when the current replica was scraped, the one before it had been.
func (r *rollout) checkPanel(t *testing.T, cut int) {
	t.Helper()
	for _, s := range r.servers {
		r.prom.scraped(t, s)
	}
	if got := r.prom.callsCut(t, r.begun); got != float64(cut) {
		t.Errorf("the panel says that %v calls were cut, want %d", got, cut)
	}
}

// A crowd calls through the proxy until it is stopped, and records failures.
type crowd struct {
	front *server
	stop  chan struct{}
	all   sync.WaitGroup

	quick, slow, lasted, renewed, relistened atomic.Int64

	// cut counts the calls that a shutdown has ended, as their answer says, and lost those without
	// an answer of the server. They are failures unless they are tolerated.
	cut, lost atomic.Int64
	tolerant  bool

	// pace is between two quick calls of a client, to leave something to other tests.
	pace time.Duration

	// moves is true if every other client sometimes opens a new connection, with dial. The others
	// keep their connections.
	moves   bool
	dial    net.Dialer
	clients int

	mu       sync.Mutex
	failures []string
}

func (c *crowd) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// each runs work again and again, with a client of its own.
func (c *crowd) each(t *testing.T, work func(client *http.Client, round int)) {
	client := httpClient(t)
	client.Transport.(*http.Transport).DialContext = c.dial.DialContext
	c.clients++
	moves := c.moves && c.clients%2 == 0
	c.all.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-c.stop:
				return
			default:
				work(client, round)
			}
			if moves && round%3 == 2 {
				client.CloseIdleConnections()
			}
		}
	})
}

// ask sends a request whose answer must be a result.
func (c *crowd) ask(client *http.Client, headers http.Header, r request) (a answer, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	a, err := c.front.trySend(ctx, client, http.MethodPost, headers, r.frame())
	text := a.body
	if events := a.eventData(); len(events) > 0 { // with signs of life before
		text = events[len(events)-1]
	}
	var m message
	switch {
	case c.tolerant && strings.Contains(text, `"server_shutdown"`):
		c.cut.Add(1)
	case c.tolerant && (err != nil || a.status == http.StatusBadGateway || a.status == http.StatusServiceUnavailable):
		c.lost.Add(1)
	case err != nil:
		c.fail("%s: %v", r.frame(), err)
	case a.status == http.StatusNotFound && r.legacy:
		return a, false // the session has ended with its replica
	case a.status != http.StatusOK || json.Unmarshal([]byte(text), &m) != nil || m.Result == nil || m.Result.IsError:
		c.fail("%s: %d %s", r.frame(), a.status, a.body)
	default:
		return a, true
	}
	return a, false
}

const (
	// longest is the time of the calls that take turns.
	longest = 4 * time.Second
	// lastingTime is the time of those that each drain must wait for: near to its time-out
	// (20s), and far enough from it that the speed of the machine does not matter.
	lastingTime = 15 * time.Second
)

// work lets the crowd call fast and slow tools.
func (c *crowd) work(t *testing.T, quick, slow int) {
	for range quick {
		c.each(t, func(client *http.Client, round int) {
			r := echoX(round)
			if _, ok := c.ask(client, r.headers(), r); ok {
				c.quick.Add(1)
			}
			time.Sleep(c.pace)
		})
	}
	for i := range slow {
		c.each(t, func(client *http.Client, round int) {
			ms := (longest.Milliseconds() / 6 * int64(i+round*5)) % longest.Milliseconds()
			r := call(round, "sleep", object{"ms": ms})
			if _, ok := c.ask(client, r.headers(), r); ok {
				c.slow.Add(1)
			}
		})
	}
}

// keepSession lets the crowd have a legacy session.
func (c *crowd) keepSession(t *testing.T) {
	session := plainHeaders()
	c.each(t, func(client *http.Client, round int) {
		if session.Get("Mcp-Session-Id") == "" {
			a, ok := c.ask(client, plainHeaders(), initializeRequest())
			if ok {
				session.Set("Mcp-Session-Id", a.header.Get("Mcp-Session-Id"))
			}
			return
		}
		a, _ := c.ask(client, session, echoX(round).inLegacy())
		if a.status == http.StatusNotFound {
			session.Del("Mcp-Session-Id")
			c.renewed.Add(1)
		}
		time.Sleep(5 * time.Millisecond) // a pace, nothing depends on it
	})
}

// subscribe lets the crowd have subscriptions.
func (c *crowd) subscribe(t *testing.T) {
	for range 2 {
		c.each(t, c.listen)
	}
}

// last begins calls that take a part of the drain, until an old replica has one of them. Each caller then
// calls again, over the same connection unless the server has closed it.
func (r *rollout) last(t *testing.T, c *crowd, old *server, d time.Duration) {
	t.Helper()
	for n := range 20 {
		client, id := httpClient(t), fmt.Sprintf("lasting-%s-%v-%02d", old.instance(), d, n)
		c.all.Go(func() {
			r := call(id, "sleep", object{"ms": d.Milliseconds()})
			if _, ok := c.ask(client, r.headers(), r); ok {
				c.lasted.Add(1)
			}
			c.ask(client, echoX(id).headers(), echoX(id))
		})
		var holder *server
		eventually(t, func() error {
			for _, s := range append(r.servers[:len(r.servers):len(r.servers)], old) {
				rep, err := s.requests()
				if err != nil {
					return err
				}
				if slices.ContainsFunc(rep.Requests, func(r inFlight) bool { return strings.Contains(r.ID, id) }) {
					holder = s
					return nil
				}
			}
			return errNotYet
		})
		if holder == old {
			return
		}
	}
	t.Fatalf("replica %s gets no call", old.instance())
}

// listen subscribes, and expects an answer when the server does not serve it any longer.
func (c *crowd) listen(client *http.Client, round int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := request{id: round, method: "subscriptions/listen", params: object{"notifications": object{"toolsListChanged": true}}}
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	a, err := c.front.trySend(ctx, client, http.MethodPost, r.headers(), r.frame())
	if ctx.Err() != nil {
		return // the test is over
	}
	data := a.eventData()
	if err != nil || a.status != http.StatusOK || len(data) != 2 ||
		!strings.Contains(data[0], "subscriptions/acknowledged") || !strings.Contains(data[1], `"resultType":"complete"`) {
		c.fail("subscription: %d %s %v", a.status, a.body, err)
		return
	}
	c.relistened.Add(1)
}

// Two replicas behind nginx are replaced while clients call. No call fails: neither those that a
// drain waits for, nor those that arrive at the end of a drain without running calls. The
// dashboard shows that.
func TestRollingRestartFailsNoCall(t *testing.T) {
	t.Parallel()
	t.Run("calls of all lengths", func(t *testing.T) { roll(t, 3, 6) })
	t.Run("short calls", func(t *testing.T) { roll(t, 8, 0) })
}

func roll(t *testing.T, quick, slow int) {
	t.Parallel()
	r := startRollout(t, drainSettings(t)...)
	c := &crowd{front: proxy(t, r.servers), stop: make(chan struct{})}
	stop := sync.OnceFunc(func() { close(c.stop); c.all.Wait() })
	defer stop()
	c.work(t, quick, slow)
	c.keepSession(t)
	c.subscribe(t)
	for i := range r.servers {
		r.awaitWork(t, slow > 0)
		if slow > 0 {
			r.last(t, c, r.servers[i], lastingTime)
		}
		old := r.servers[i]
		if cut := r.restart(t, i); cut != 0 {
			t.Errorf("replica %d has cut %d calls", i, cut)
		}
		for record, want := range map[string]bool{"drain.begin": true, "drain.refusing": true, "drain.end": true, "drain.deadline": false} {
			if slices.ContainsFunc(old.stderr.snapshot(), isRecord(record)) != want {
				t.Errorf("replica %d has logged %s: want %v", i, record, want)
			}
		}
	}
	r.awaitWork(t, slow > 0)
	stop()
	r.checkPanel(t, 0)
	for _, f := range c.failures {
		t.Error(f)
	}
	t.Logf("%d quick calls, %d slow ones, %d that lasted %v; %d sessions were begun anew, %d subscriptions were ended politely",
		c.quick.Load(), c.slow.Load(), c.lasted.Load(), lastingTime, c.renewed.Load(), c.relistened.Load())
	if c.quick.Load() == 0 || (c.slow.Load() > 0) != (slow > 0) || slow > 0 && c.lasted.Load() < 2 || c.renewed.Load() < 1 || c.relistened.Load() < 2 {
		t.Error("want calls of each kind, a session that was begun anew, and two subscriptions that were ended politely at least")
	}
	r.end(t)
}

// awaitWork waits until each replica is at work, also one that was replaced before: only
// then may the next one go.
func (r *rollout) awaitWork(t *testing.T, slow bool) {
	t.Helper()
	for i, s := range r.servers {
		eventually(t, func() error {
			rep, err := s.requests()
			if err == nil && (s.calls(t) < 50 || slow && !slices.ContainsFunc(rep.Requests, func(r inFlight) bool { return r.Tool == "sleep" })) {
				err = fmt.Errorf("replica %d is not at work", i)
			}
			return err
		})
	}
}

// Without a drain the dashboard shows how many calls were cut, and clients see as many.
func TestRestartWithoutDrainCutsCalls(t *testing.T) {
	t.Parallel()
	r := startRollout(t, append(drainSettings(t), "VITRINE_SHUTDOWN_DELAY=0s", "VITRINE_DRAIN_TIMEOUT=0s", "VITRINE_REFUSE_TIME=0s")...)
	c := &crowd{front: proxy(t, r.servers), stop: make(chan struct{}), tolerant: true, pace: 5 * time.Millisecond}
	stop := sync.OnceFunc(func() { close(c.stop); c.all.Wait() })
	defer stop()
	c.work(t, 3, 6)
	cut := 0
	for i := range r.servers {
		r.awaitWork(t, true)
		r.prom.scraped(t, r.servers[i]) // a series whose first scrape is the last one has no increase
		r.last(t, c, r.servers[i], lastingTime)
		n := r.restart(t, i)
		if n == 0 {
			t.Errorf("replica %d has cut nothing, and had a call of %v", i, lastingTime)
		}
		cut += n
	}
	r.checkPanel(t, cut)
	stop()
	for _, f := range c.failures {
		t.Error(f)
	}
	// The connection of a call may be closed before its answer is sent, or before the call begins.
	// In both cases the client only knows that the call has failed.
	known, lost := int(c.cut.Load()), int(c.lost.Load())
	t.Logf("%d calls were cut: the clients have %d answers that say so, and %d calls without an answer", cut, known, lost)
	if cut < known || cut > known+lost {
		t.Errorf("%d calls were cut; clients know of %d, and of %d that may have been", cut, known, lost)
	}
	r.end(t)
}
