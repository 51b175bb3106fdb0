package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Half of many callers disconnect at some moment. Every answer is accounted for.
func TestEveryAnswerIsAccountedForInAStorm(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	const calls = 300
	var wg sync.WaitGroup
	places := make(chan struct{}, 30)
	for i := range calls {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			r := call(1, "progress", object{"steps": 3, "ms": rand.IntN(5)}).with("progressToken", i)
			p := s.begin(t, r.headers(), r.frame())
			if i%2 == 0 {
				time.Sleep(rand.N(20 * time.Millisecond)) // any moment will do
				p.drop()
			}
			a, answered := <-p.answer
			if i%2 == 1 && (!answered || !strings.Contains(a.body, "3 steps done")) {
				t.Errorf("call %d: %v %s", i, answered, a.body)
			}
		})
	}
	wg.Wait()
	rep := s.settled(t)
	if got := rep.Totals.Sent; got < calls/2 {
		t.Errorf("%d answers were sent, want at least the %d that were waited for", got, calls/2)
	}
	if c, d := rep.Totals.Cancelled["client_disconnect"], rep.Totals.Dropped["cancelled"]; c != d {
		t.Errorf("%d calls were cancelled and %d of their answers dropped", c, d)
	}
}

// An answer that is larger than any buffer on its way.
func TestAnswerLargerThanAllBuffers(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	r := call(1, "big", object{"bytes": size})
	s := serveHTTP(t)
	if a := s.post(t, r); len(a.text()) != size {
		t.Errorf("http: %.200s", a.body)
	}
	p := connect(serveStdio(t))
	if m := p.ask(t, r); len(m.text()) != size {
		t.Errorf("stdio: %.200s", m)
	}
}

// Versions are exact, and the lock file names no registry, so that it installs from any of them.
func TestLockFile(t *testing.T) {
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`"resolved".*|.*registry.*`).Find(lock); found != nil {
		t.Errorf("package-lock.json: %s", found)
	}
	text, err := os.ReadFile("node/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	for name, version := range manifest.Dependencies {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(version) {
			t.Errorf("package.json: %s %s is not an exact version", name, version)
		}
	}
}
