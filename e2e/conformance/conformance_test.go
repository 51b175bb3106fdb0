package conformance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestConformance runs the suite and prints its table. The runs follow each other: some scenarios
// change the lists of the server while others check that these stay the same, and some wait for an
// answer for half a second at most, which is little on a busy machine.
func TestConformance(t *testing.T) {
	runtime.LockOSThread() // see dieWithTests
	suite := findSuite(t)
	srv := serve(t, build(t))
	begin := time.Now()
	all, runs := suite.plan(t)
	for _, r := range runs {
		suite.execute(t.Context(), srv.mcp, r)
	}
	rep := newReport(all, runs, time.Since(begin))
	fmt.Fprintf(t.Output(), "\n%s\n", rep)
	if n := len(rep.faults); n > 0 {
		t.Errorf("%d faults, see above", n)
	}
	srv.settled(t)
}

// A server that still answers for ended sessions fails, and the report says so.
func TestBrokenServerFailsTheSuite(t *testing.T) {
	runtime.LockOSThread() // see dieWithTests
	suite := findSuite(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "1")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"b","version":"1"}}}`)
	}))
	t.Cleanup(srv.Close)
	const scenario = "server-session-lifecycle"
	r := &run{name: "broken", revision: "2025-03-26", args: []string{"--suite", "all", "--spec-version", "2025-03-26"}, want: []string{scenario}}
	suite.execute(t.Context(), srv.URL, r)
	rep := judged(r)
	want := scenario + " (2025-03-26): FAILURE server-session-terminated-returns-404: Expected 404 on terminated session ID, got 200"
	if len(rep.faults) != 1 || rep.faults[0].String() != want || r.exit != 1 {
		t.Errorf("faults %q, exit status %d, want %q and 1:\n%s", rep.faults, r.exit, want, r.out)
	}
	if word := rep.word(scenario, "2025-03-26"); !strings.HasPrefix(word, "FAIL ") {
		t.Errorf("in the table it is %q", word)
	}
}
