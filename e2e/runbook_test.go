package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/issuertest"
	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// A drill is a situation that was provoked, at which an operator looks.
type drill struct {
	*server
	situation
	prom *prometheus
	otlp *receiver
	dir  string // where server.log and audit.jsonl are
	// issuer signs tokens, if the situation has one.
	issuer *issuertest.Issuer
	// peer is another replica, store what both share, and link the server's way to it, if the situation is about
	// replicas.
	peer  *server
	store *redistest.Server
	link  *redistest.Proxy
	// lives are the servers, one after the other, whose logs it reads.
	lives []*server
}

// TestRunbookFindsEachSituation provokes the situations of docs/runbook.md and does what the page
// says: it reads queries, commands and searches from the page, and compares their answers with
// the page. One Prometheus, started as deploy/prometheus/prometheus.yml says, scrapes the
// servers. For a server without trouble, which shares a store with another one, no query has an answer.
func TestRunbookFindsEachSituation(t *testing.T) {
	needs.Long(t, "e2e/runbook")
	needs.Tool(t, "e2e/runbook", "prometheus", "curl", "grep", "redis-server", "redis-cli")
	t.Parallel()
	_, questions := readRunbook(t)
	situations := situations()
	store := redistest.Start(t, "e2e/runbook")
	well := serveHTTP(t, withEnv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+receive(t).url+"/v1/traces"), sealed, joins(store.Addr()))
	other := serveHTTP(t, sealed, joins(store.Addr()))
	prom := scrapeDeployed(t, time.Second)
	prom.watch(t, well)
	prom.scraped(t, well)
	subscribe(t, well)
	behave(t, well)
	shareWork(t, well, other)
	prom.scraped(t, well)
	t.Run("question", func(t *testing.T) {
		for _, q := range questions {
			t.Run(q.title, func(t *testing.T) {
				t.Parallel()
				d := begin(t, situations[q.title])
				d.prom = prom
				prom.watch(t, d.server)
				if d.replicas {
					prom.watch(t, d.peer)
				}
				d.run(t, q.steps)
			})
		}
	})
	behave(t, well)
	shareWork(t, well, other)
	prom.scraped(t, well)
	for _, q := range questions {
		for _, s := range q.steps {
			if s.lang == "promql" {
				prom.checkSilence(t, well, s.input)
			}
		}
	}
}

// begin starts the server of a situation.
func begin(t *testing.T, s situation) *drill {
	t.Helper()
	d := &drill{situation: s, otlp: receive(t), dir: t.TempDir()}
	if s.down {
		d.otlp.url = "http://" + freeAddress(t)
	}
	args := slices.Clone(s.args)
	if s.issuer {
		d.issuer = issuertest.New(t)
		args = append(args, "--oauth-issuer", d.issuer.URL, "--oauth-resource", issuertest.Resource, "--oauth-scopes", "demo:read")
	}
	if s.replicas {
		d.share(t)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{dir}", d.dir)
	}
	d.server = d.start(t, args...)
	if s.prepare != nil {
		s.prepare(t, d)
	}
	return d
}

// start starts a server that exports its spans.
func (d *drill) start(t *testing.T, args ...string) *server {
	t.Helper()
	export := withEnv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+d.otlp.url+"/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=20")
	adjusts := []adjust{export, withEnv(d.env...), withArgs(args...)}
	if d.replicas {
		adjusts = append(adjusts, sealed, joins(d.link.Addr()))
	}
	begin := serveHTTP
	if d.stdio {
		begin = serveStdio
	}
	s := begin(t, adjusts...)
	d.lives = append(d.lives, s)
	return s
}

// run provokes the situation once, so that each series exists before counting, and then four times.
// Queries come first, as on the page.
func (d *drill) run(t *testing.T, steps []step) {
	d.prom.scraped(t, d.server)
	for _, n := range []int{1, 4} {
		d.provoke(t, d, n)
		d.prom.scraped(t, d.server)
	}
	for _, lang := range []string{"promql", "console jaeger"} {
		if lang != "promql" && d.during != nil {
			defer d.during(t, d)()
		}
		for _, s := range steps {
			if strings.Contains(lang, s.lang) {
				eventually(t, func() error { return d.check(s) })
			}
		}
	}
}

// check does one step.
func (d *drill) check(s step) error {
	switch s.lang {
	case "promql":
		return d.checkQuery(s)
	case "console":
		return d.checkConsole(s)
	default:
		return d.checkSearch(s)
	}
}

// A sample is one series of an answer and its value.
type sample struct {
	labels string
	value  float64
}

// scraped waits until all that has happened to a server is in Prometheus.
func (p *prometheus) scraped(t *testing.T, s *server) {
	t.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	query := fmt.Sprintf("timestamp(vitrine_build_info{instance=%q})", s.instance())
	eventually(t, func() error {
		var data struct {
			Result []struct{ Value [2]any }
		}
		if err := p.api("query", url.Values{"query": {query}}, &data); err != nil {
			return err
		}
		if len(data.Result) != 1 {
			return fmt.Errorf("%s was never scraped", s.instance())
		}
		if at, _ := strconv.ParseFloat(fmt.Sprint(data.Result[0].Value[1]), 64); at <= now {
			return fmt.Errorf("%s was scraped last %f before", s.instance(), now-at)
		}
		return nil
	})
}

// series runs a query and returns the series of some instances, with the names that these have on the page.
func (p *prometheus) series(query string, names map[string]string) (samples []sample, err error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.api("query", url.Values{"query": {query}}, &data); err != nil {
		return nil, err
	}
	for _, series := range data.Result {
		name, ok := names[series.Metric["instance"]]
		if !ok {
			continue
		}
		series.Metric["instance"] = name
		value, err := strconv.ParseFloat(fmt.Sprint(series.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample{labelText(series.Metric), value})
	}
	slices.SortFunc(samples, func(a, b sample) int { return strings.Compare(a.labels, b.labels) })
	return samples, nil
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// The names of the admin listeners of the server and of another replica on the page.
const thisInstance, otherInstance = "127.0.0.1:9464", "127.0.0.1:9465"

// instances returns the servers that the page is about, by their addresses.
func (d *drill) instances() map[string]string {
	names := map[string]string{d.instance(): thisInstance}
	if d.replicas {
		names[d.peer.instance()] = otherInstance
	}
	return names
}

var answerLine = regexp.MustCompile(`^(\{.*\}) (\S+)$`)

// checkQuery compares all series of a query's answer with those on the page. A value may be half or
// twice that on the page, because increase() estimates; … stands for any value.
func (d *drill) checkQuery(s step) error {
	got, err := d.prom.series(s.input, d.instances())
	if err != nil {
		return err
	}
	want := map[string]string{} // by their labels
	for _, line := range s.want {
		m := answerLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("the page has %q where a series is expected", line)
		}
		labels := map[string]string{}
		for _, match := range matcher.FindAllStringSubmatch(m[1], -1) {
			labels[match[1]] = match[2]
		}
		want[labelText(labels)] = m[2]
	}
	failed := fmt.Errorf("%s\nanswers %v, and on the page\n%s", s.input, got, strings.Join(s.want, "\n"))
	if len(got) != len(s.want) {
		return failed
	}
	for _, g := range got {
		text, ok := want[g.labels]
		value, err := strconv.ParseFloat(text, 64)
		if !ok || text != "…" && (err != nil || !(g.value >= value/2 && g.value <= value*2)) {
			return failed
		}
	}
	return nil
}

// checkConsole types a command. The addresses of the page are the defaults, and those of another replica and of the
// store; server.log is the log.
func (d *drill) checkConsole(s step) error {
	var log []string
	for _, life := range d.lives {
		log = append(log, life.stderr.snapshot()...)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "server.log"), []byte(strings.Join(log, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	places := []string{thisInstance, d.instance(), "http://127.0.0.1:8080", strings.TrimSuffix(d.mcp, "/mcp")}
	if d.replicas {
		places = append(places, otherInstance, d.peer.instance(), "redis.example:6379", d.store.Addr())
	}
	typed := strings.NewReplacer(places...).Replace(s.input)
	cmd := exec.Command("sh", "-c", typed)
	cmd.Dir, cmd.Env = d.dir, cleanEnv()
	out, err := cmd.CombinedOutput()
	if err := contains(string(out), s.want); err != nil {
		return fmt.Errorf("%s\n%w", typed, err)
	}
	return err
}

// contains looks for the lines of the page in an output, whatever the width of its
// columns.
func contains(out string, want []string) error {
	for _, line := range want {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*")
		pattern = regexp.MustCompile(`\s+`).ReplaceAllString(pattern, `\s+`)
		if !regexp.MustCompile(`(?m)^\s*` + pattern + `\s*$`).MatchString(out) {
			return fmt.Errorf("no line %q in\n%s", line, out)
		}
	}
	return nil
}

var tag = regexp.MustCompile(`(\S+)=(\S+)`)

// checkSearch searches spans by their attributes, as in Jaeger. The page shows further attributes of
// the spans, and attributes of events after the name of the event.
func (d *drill) checkSearch(s step) error {
	d.otlp.mu.Lock()
	defer d.otlp.mu.Unlock()
	tags := tag.FindAllStringSubmatch(s.input, -1)
	err := errors.New("no span")
	for _, span := range d.otlp.spans {
		attrs := span.attributes()
		if !slices.ContainsFunc(tags, func(m []string) bool { return fmt.Sprint(attrs[m[1]]) != m[2] }) {
			var text strings.Builder
			for _, key := range slices.Sorted(maps.Keys(attrs)) {
				fmt.Fprintf(&text, "%s %v\n", key, attrs[key])
			}
			for _, e := range span.GetEvents() {
				for key, value := range attributes(e.GetAttributes()) {
					fmt.Fprintf(&text, "%s %s %v\n", e.GetName(), key, value)
				}
			}
			if err = contains(text.String(), s.want); err == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %w", s.input, err)
}
