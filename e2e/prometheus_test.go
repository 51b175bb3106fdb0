package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A prometheus is a Prometheus server.
type prometheus struct {
	*process
	url string

	// The file has the targets of a Prometheus that was started without.
	mu      sync.Mutex
	file    string
	targets []string
}

// scrape starts a Prometheus that scrapes servers again and again.
func scrape(t *testing.T, interval time.Duration, features string, servers ...*server) *prometheus {
	t.Helper()
	return scrapeTargets(t, interval, features, instances(servers))
}

// scrapeTargets is scrape for servers that may start later.
func scrapeTargets(t *testing.T, interval time.Duration, features string, targets []string) *prometheus {
	t.Helper()
	return runPrometheus(t, features, fmt.Sprintf("global: {scrape_interval: %[1]v, scrape_timeout: %[1]v}\nscrape_configs: [{job_name: mcp, static_configs: [{targets: %[2]s}]}]\n",
		interval, encode(targets)))
}

// scrapeWatched starts a Prometheus that scrapes the servers that it is told to watch.
func scrapeWatched(t *testing.T, interval time.Duration, features string) *prometheus {
	t.Helper()
	targets := filepath.Join(t.TempDir(), "targets.json")
	p := runPrometheus(t, features, fmt.Sprintf("global: {scrape_interval: %[1]v, scrape_timeout: %[1]v}\nscrape_configs: [{job_name: mcp, file_sd_configs: [{files: [%[2]q]}]}]\n",
		interval, targets))
	p.file = targets
	return p
}

// scrapeDeployed starts a Prometheus with the flags and the options that
// deploy/prometheus/prometheus.yml recommends. Only the interval differs, and the targets, which are to be watched.
func scrapeDeployed(t *testing.T, interval time.Duration) *prometheus {
	t.Helper()
	raw, err := os.ReadFile("../deploy/prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs("../dashboards/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	features := regexp.MustCompile(`#\s+--enable-feature=(\S+)\n`).FindStringSubmatch(text)
	if features == nil {
		t.Fatalf("no features in %s", text)
	}
	targets := filepath.Join(t.TempDir(), "targets.json")
	for old, here := range map[string]string{
		"scrape_interval: 15s": fmt.Sprintf("scrape_interval: %[1]v\n  scrape_timeout: %[1]v", interval),
		"static_configs:\n      - targets: [\"127.0.0.1:9464\"]": fmt.Sprintf("file_sd_configs: [{files: [%s]}]", targets),
		"../../dashboards/rules.yml":                             rules,
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is not once in %s", old, text)
		}
		text = strings.Replace(text, old, here, 1)
	}
	p := runPrometheus(t, features[1], text)
	p.file = targets
	return p
}

// watch has Prometheus scrape a server until the test ends. It begins within seconds.
func (p *prometheus) watch(t *testing.T, s *server) {
	t.Helper()
	change := func(targets []string) {
		p.targets = targets
		groups := encode([]object{{"targets": targets}})
		if err := errors.Join(os.WriteFile(p.file+".new", []byte(groups), 0o600), os.Rename(p.file+".new", p.file)); err != nil {
			t.Error(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	change(append(p.targets, s.instance()))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		change(slices.DeleteFunc(p.targets, func(target string) bool { return target == s.instance() }))
	})
}

func instances(servers []*server) (targets []string) {
	for _, s := range servers {
		targets = append(targets, s.instance())
	}
	return targets
}

func runPrometheus(t *testing.T, features, text string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		addr := freeAddress(t)
		p := &prometheus{url: "http://" + addr, process: start(t, program{path: "prometheus", args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr,
			"--enable-feature=" + features,
		}})}
		if p.listens(t) {
			return p
		}
	}
}

// instance is the name of the server in Prometheus.
func (s *server) instance() string { return strings.TrimPrefix(s.admin, "http://") }

// listens waits until Prometheus answers. It returns false if another process has taken the
// address.
func (p *prometheus) listens(t *testing.T) (yes bool) {
	t.Helper()
	eventually(t, func() error {
		if !p.running() && strings.Contains(p.stderr.text(), "address already in use") {
			return nil
		}
		err := p.api("status/runtimeinfo", nil, new(any))
		yes = err == nil
		return err
	})
	return yes
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// api asks the HTTP API and decodes the data of the answer.
func (p *prometheus) api(path string, query url.Values, data any) error {
	if !p.running() {
		return fmt.Errorf("prometheus has ended: %s", p.stderr)
	}
	resp, err := http.Get(p.url + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// awaitValue waits until a query has one value and that is the wanted one.
func (p *prometheus) awaitValue(t *testing.T, query, want string) {
	t.Helper()
	eventually(t, func() error {
		var data struct {
			Result []struct{ Value [2]any }
		}
		if err := p.api("query", url.Values{"query": {query}}, &data); err != nil {
			return err
		}
		if len(data.Result) != 1 || data.Result[0].Value[1] != want {
			return fmt.Errorf("%s is %v, want %s", query, data.Result, want)
		}
		return nil
	})
}

// exemplars returns the trace ids of the exemplars of a series.
func (p *prometheus) exemplars(query string) (traces []string, err error) {
	var data []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	now := time.Now()
	err = p.api("query_exemplars", url.Values{
		"query": {query}, "start": {fmt.Sprint(now.Add(-time.Hour).Unix())}, "end": {fmt.Sprint(now.Add(time.Hour).Unix())},
	}, &data)
	for _, series := range data {
		for _, e := range series.Exemplars {
			traces = append(traces, e.Labels["trace_id"])
		}
	}
	return traces, err
}

// awaitExemplar waits until a series has an exemplar with the trace.
func (p *prometheus) awaitExemplar(t *testing.T, query, trace string) {
	t.Helper()
	eventually(t, func() error {
		traces, err := p.exemplars(query)
		if err == nil && !slices.Contains(traces, trace) {
			err = fmt.Errorf("no exemplar of trace %s on %s, but %v", trace, query, traces)
		}
		return err
	})
}

// A real Prometheus scrapes the server, with and without native histograms.
func TestPrometheusScrapesTheServer(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "prometheus", "promtool")
	t.Parallel()
	s := serveHTTP(t)
	for range 3 {
		s.post(t, traced(call(1, "echo", object{"text": "x"})))
	}
	r := stubborn(2)
	r.params["arguments"] = object{"ms": 3_000, "stubborn": true}
	p := s.begin(t, traced(r).headers(), traced(r).frame())
	s.awaitRunning(t, "sleep")
	p.drop()
	s.settled(t)
	const duration = `mcp_server_operation_duration_seconds%s{gen_ai_tool_name="echo",mcp_method_name="tools/call",network_transport="tcp"}`
	for _, c := range []struct {
		title, features string
		check           func(*testing.T, *prometheus)
	}{
		{"native histograms", "exemplar-storage,native-histograms", func(t *testing.T, p *prometheus) {
			p.awaitValue(t, "histogram_count("+fmt.Sprintf(duration, "")+")", "3")
			p.awaitValue(t, "histogram_quantile(1, "+fmt.Sprintf(duration, "")+") > bool 0", "1")
			p.awaitExemplar(t, fmt.Sprintf(duration, ""), metaTrace)
		}},
		{"classic histograms", "exemplar-storage", func(t *testing.T, p *prometheus) {
			p.awaitValue(t, fmt.Sprintf(duration, "_count"), "3")
			p.awaitValue(t, strings.Replace(fmt.Sprintf(duration, "_bucket"), "}", `,le="300.0"}`, 1), "3")
			p.awaitExemplar(t, fmt.Sprintf(duration, "_bucket"), metaTrace)
			p.awaitExemplar(t, `vitrine_requests_cancelled_total{cause="client_disconnect"}`, metaTrace)
		}},
	} {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			p := scrape(t, 500*time.Millisecond, c.features, s)
			eventually(t, func() error { return p.targetUp() })
			p.awaitValue(t, "up", "1")
			p.awaitValue(t, `sum(vitrine_requests_admitted_total{method="tools/call"})`, "4")
			p.awaitValue(t, `sum(vitrine_responses_sent_total)`, "3")
			p.awaitValue(t, `sum(vitrine_responses_dropped_total{tool="sleep",reason="cancelled"})`, "1")
			p.awaitValue(t, `sum(vitrine_requests_admitted_total) - sum(vitrine_responses_sent_total) - sum(vitrine_responses_stored_total) - sum(vitrine_responses_dropped_total)`, "0")
			p.awaitValue(t, `sum(vitrine_requests_cancelled_total{cause="client_disconnect"})`, "1")
			p.awaitValue(t, `vitrine_requests_rejected_total{reason="overload"}`, "0") // there before the first
			p.awaitValue(t, `count(vitrine_build_info)`, "1")
			c.check(t, p)
		})
	}
}

// targetUp returns an error unless the one target is up.
func (p *prometheus) targetUp() error {
	var data struct {
		ActiveTargets []struct{ Health, LastError string }
	}
	if err := p.api("targets", nil, &data); err != nil {
		return err
	}
	if len(data.ActiveTargets) != 1 || data.ActiveTargets[0].Health != "up" || data.ActiveTargets[0].LastError != "" {
		return fmt.Errorf("targets: %+v", data.ActiveTargets)
	}
	return nil
}

// promtool checks names, types and help texts of a scrape.
func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "promtool")
	t.Parallel()
	s := serveHTTP(t)
	s.post(t, call(1, "echo", object{"text": "x"}))
	s.post(t, call(1, "panic", object{}))
	text, _, err := s.get("/metrics", "text/plain;version=0.0.4")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, program{path: "promtool", args: []string{"check", "metrics"}})
	if _, err := p.stdin.Write(text); err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	status := p.exit(t)
	p.stdout.drained(t)
	p.stderr.drained(t)
	complaints := slices.Concat(p.stdout.snapshot(), p.stderr.snapshot())
	if status.ExitStatus() != 0 || len(complaints) > 0 {
		t.Errorf("promtool check metrics: exit status %d\n%s", status.ExitStatus(), strings.Join(complaints, "\n"))
	}
}
