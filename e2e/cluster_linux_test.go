package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// podFile is the manifest for kubectl. deploy/check compares it with the chart.
const podFile = "../deploy/kubernetes/base/deployment.yaml"

// A podSpec has the settings of the manifest for the end of a pod and its replacement.
type podSpec struct {
	env       []string // how the server ends
	delay     time.Duration
	grace     time.Duration // from the signal to the kill
	readiness struct {
		path     string
		period   time.Duration
		failures int
	}
}

func readPod(t *testing.T) (p podSpec) {
	t.Helper()
	var d struct {
		Spec struct {
			Strategy struct {
				RollingUpdate struct {
					MaxSurge       int `yaml:"maxSurge"`
					MaxUnavailable int `yaml:"maxUnavailable"`
				} `yaml:"rollingUpdate"`
			}
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Lifecycle      any
						Env            []struct{ Name, Value string }
						ReadinessProbe struct {
							HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
							PeriodSeconds    int                         `yaml:"periodSeconds"`
							FailureThreshold int                         `yaml:"failureThreshold"`
						} `yaml:"readinessProbe"`
					}
				}
			}
		}
	}
	text, err := os.ReadFile(podFile)
	if err == nil {
		err = yaml.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	if u := d.Spec.Strategy.RollingUpdate; u.MaxSurge != 1 || u.MaxUnavailable != 0 {
		t.Fatalf("the test replaces pods one by one, and each by one that is ready: %+v", u)
	}
	c := d.Spec.Template.Spec.Containers[0]
	if c.Lifecycle != nil {
		t.Fatalf("the test signals at once, and the pod has a hook: %v", c.Lifecycle)
	}
	for _, e := range c.Env {
		v, err := time.ParseDuration(e.Value)
		if err != nil || !strings.HasPrefix(e.Name, "VITRINE_") {
			continue // not about time
		}
		p.env = append(p.env, e.Name+"="+e.Value)
		if e.Name == "VITRINE_SHUTDOWN_DELAY" {
			p.delay = v
		}
	}
	p.grace = time.Duration(d.Spec.Template.Spec.Grace) * time.Second
	probe := c.ReadinessProbe
	p.readiness.path, p.readiness.failures = probe.HTTPGet.Path, probe.FailureThreshold
	p.readiness.period = time.Duration(probe.PeriodSeconds) * time.Second
	if p.delay == 0 || p.grace == 0 || p.readiness.path == "" || p.readiness.period == 0 || p.readiness.failures == 0 || probe.HTTPGet.Port != "admin" {
		t.Fatalf("%s says too little: %+v", podFile, p)
	}
	return p
}

// A clusterService works like a Service of Kubernetes: it has one address, and passes each new
// connection to one of its endpoints. A connection stays with its endpoint. The service does not
// know HTTP, and repeats nothing.
type clusterService struct {
	net.Listener
	all  sync.WaitGroup
	dial net.Dialer

	mu        sync.Mutex // guards the rest
	endpoints []string
	next      int
}

// newClusterService starts a service that listens until the test ends.
func newClusterService(t *testing.T) *clusterService {
	t.Helper()
	l, err := net.Listen("tcp", replicaAddress())
	if err != nil {
		t.Fatal(err)
	}
	s := &clusterService{Listener: l, dial: dialFrom(l)}
	s.all.Go(s.accept)
	t.Cleanup(func() {
		l.Close()
		s.all.Wait()
	})
	return s
}

// dialFrom returns a dialer that uses the ports of the listener's address. Other tests need those
// of 127.0.0.1.
func dialFrom(l net.Listener) net.Dialer {
	return net.Dialer{LocalAddr: &net.TCPAddr{IP: l.Addr().(*net.TCPAddr).IP}}
}

// route replaces the endpoints, for connections that are opened from now on.
func (s *clusterService) route(pods ...*server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = nil
	for _, p := range pods {
		s.endpoints = append(s.endpoints, strings.TrimSuffix(strings.TrimPrefix(p.mcp, "http://"), "/mcp"))
	}
}

func (s *clusterService) accept() {
	for {
		client, err := s.Accept()
		if err != nil {
			return // the test is over
		}
		s.mu.Lock()
		s.next++
		endpoint := s.endpoints[s.next%len(s.endpoints)]
		s.mu.Unlock()
		pod, err := s.dial.Dial("tcp", endpoint)
		if err != nil {
			client.Close() // the client reports the error
			continue
		}
		s.all.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { pass(client, pod) })
			both.Go(func() { pass(pod, client) })
			both.Wait()
			client.Close()
			pod.Close()
		})
	}
}

// pass copies the bytes of one side to the other, and then closes that direction.
func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}

// leave treats a server like a deleted pod: it gets the signal at once, and the service stops
// using it only when its probes fail. A cluster may be quicker, but need not be. The first probe
// comes after half of the interval, so that this ends well before the server rejects requests.
func (p *podSpec) leave(t *testing.T, s *server) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	time.Sleep(p.readiness.period / 2)
	for failed := 0; ; time.Sleep(p.readiness.period) {
		if _, _, err := s.get(p.readiness.path, "*/*"); err != nil {
			failed++
		} else {
			failed = 0
		}
		if failed == p.readiness.failures {
			return
		}
	}
}

// callSeldom lets some clients call, each over a connection of its own, and returns a function that
// lets them call again.
func (c *crowd) callSeldom(t *testing.T, n int) (again func()) {
	clients := make([]*http.Client, n)
	all := func() {
		for i, client := range clients {
			c.ask(client, echoX(i).headers(), echoX(i))
		}
	}
	for i := range clients {
		clients[i] = httpClient(t)
	}
	all()
	return all
}

// The pods of the manifest are replaced while clients call. Each pod is told to end while it is
// still an endpoint, and clients keep connections to it for a while. No call fails.
func TestRollingRestartInClusterFailsNoCall(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "prometheus")
	t.Parallel()
	spec := readPod(t)
	r := &rollout{env: spec.env, servers: make([]*server, 2), pushed: make([]*receiver, 2), begun: time.Now()}
	var pods, admins []string
	for range 2 * len(r.servers) {
		addr := replicaAddress()
		pods, admins = append(pods, addr), append(admins, adminAddress(addr))
	}
	for i := range r.servers {
		r.start(t, i, pods[i], admins[i])
	}
	r.prom = scrapeTargets(t, scrapeInterval, "exemplar-storage", admins)
	service := newClusterService(t)
	service.route(r.servers...)
	c := &crowd{
		front: &server{mcp: "http://" + service.Addr().String() + "/mcp"}, stop: make(chan struct{}),
		moves: true, dial: service.dial, pace: 5 * time.Millisecond,
	}
	stop := sync.OnceFunc(func() { close(c.stop); c.all.Wait() })
	defer stop()
	c.work(t, 6, 6)
	c.subscribe(t)
	var ending []*server
	var told []time.Time
	for i, old := range r.servers {
		r.awaitWork(t, true)
		r.prom.scraped(t, old)
		r.start(t, i, pods[2+i], admins[2+i])
		eventually(t, func() error { _, _, err := r.servers[i].get(spec.readiness.path, "*/*"); return err })
		service.route(append(r.servers[:len(r.servers):len(r.servers)], old)...)
		for _, d := range []time.Duration{longest, longest / 2} { // they end when new calls are refused, one while the other goes on
			r.last(t, c, old, spec.delay+d)
		}
		ending, told = append(ending, old), append(told, time.Now())
		seldom := c.callSeldom(t, 2*len(r.servers)+2)
		spec.leave(t, old)
		service.route(r.servers...)
		old.stderr.await(t, "record drain.progress or drain.end", 0, func(line string) bool { // it has closed idle connections a while ago
			return isRecord("drain.progress")(line) || isRecord("drain.end")(line)
		})
		seldom()
	}
	r.awaitWork(t, true)
	for i, old := range ending {
		old.exited(t, 0)
		if took := time.Since(told[i]); took > spec.grace {
			t.Errorf("pod %d has ended after %v: it would have been killed after %v", i, took, spec.grace)
		}
		old.checkScraped(t)
		r.prom.awaitValue(t, fmt.Sprintf("up{instance=%q}", old.instance()), "0") // which is scraped after the last figures
	}
	stop()
	r.checkPanel(t, 0)
	for _, f := range c.failures {
		t.Error(f)
	}
	t.Logf("%d quick calls, %d slow ones, %d that lasted up to %v; %d subscriptions were ended politely",
		c.quick.Load(), c.slow.Load(), c.lasted.Load(), spec.delay+longest, c.relistened.Load())
	if c.quick.Load() == 0 || c.slow.Load() == 0 || c.lasted.Load() < 4 || c.relistened.Load() < 2 {
		t.Error("want calls of each kind, and two subscriptions that were ended politely at least")
	}
	r.end(t)
}
