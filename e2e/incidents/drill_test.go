package incidents

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
)

// hold makes a drill of the incidents: they take as long as they would, all servers are scraped by a Prometheus, and the
// clients go on calling so that a person can look for the causes.
var hold = flag.Duration("hold", 0, "make it a drill, and stay up for so long after the incidents have begun to show")

// drill says where the pages are, and goes on.
func drill(t *testing.T, shops []*shop, prometheus string) {
	t.Logf("Prometheus: %s", prometheus)
	for i, s := range shops {
		t.Logf("incident %d: %s/debug/changes, job incident%d, log %s", i+1, s.admin, i+1, s.log)
	}
	run(shops, int(hold.Seconds())/changes.StepSeconds)
}

// scrape starts a Prometheus as deploy/prometheus has it, in which each server is a job. It returns its address.
func scrape(t *testing.T, shops []*shop) (url string) {
	rules, err := filepath.Abs("../../dashboards/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "global: {scrape_interval: 5s, scrape_timeout: 5s}\nrule_files: [%q]\nscrape_configs:\n", rules)
	for i, s := range shops {
		fmt.Fprintf(&text, "  - {job_name: incident%d, static_configs: [{targets: [%q]}]}\n", i+1, strings.TrimPrefix(s.admin, "http://"))
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	p := exec.CommandContext(ctx, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--enable-feature=exemplar-storage")
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	p.WaitDelay = 10 * time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = p.Wait()
	})
	return "http://" + addr
}
