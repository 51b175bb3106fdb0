package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What counts as a fault, and what the table shows.
func TestJudge(t *testing.T) {
	ok := check{ID: "a", Status: success}
	schema := check{ID: schemaCheck, Status: success}
	const unfinished = "Skipped: The harness needs a rewrite."
	for _, c := range []struct {
		name     string
		scenario string
		checks   []check
		word     string
		faults   string
	}{
		{"passes", "s", []check{ok, schema}, "pass 2", ""},
		{"fails", "s", []check{ok, {ID: "b", Status: failure, ErrorMessage: "no\n b"}}, "FAIL 1/2", "s (r): FAILURE b: no b"},
		{"violates the schema", "s", []check{ok, {ID: schemaCheck, Status: failure}}, "FAIL 1/2", "s (r): FAILURE wire-schema-valid: "},
		{"warns", "s", []check{ok, {ID: "b", Status: warning, Description: "d"}}, "warn 1/2", "s (r): WARNING b: d"},
		{"fails and warns", "s", []check{{ID: "b", Status: warning}, {ID: "c", Status: failure}}, "FAIL 0/2", "s (r): WARNING b: |s (r): FAILURE c: "},
		{"says a word of its own", "s", []check{ok, {ID: "b", Status: "PERHAPS"}}, "FAIL 1/2", "s (r): PERHAPS b: "},
		{"skips a check", "s", []check{ok, {ID: "b", Status: skipped, Details: []byte(`{"note":"n"}`)}}, "void 1/2", "s (r): SKIPPED b: n"},
		{"only informs", "s", []check{ok, {ID: "b", Status: info, Details: []byte(`{"message":"m"}`)}}, "void 1/2", "s (r): INFO b: m"},
		{"tells what happens", "s", []check{ok, {ID: "outgoing-request", Status: info}}, "pass 1", ""},
		{"hides a failure in the journal", "s", []check{ok, {ID: "incoming-sse-event", Status: failure}}, "FAIL 1/2", "s (r): FAILURE incoming-sse-event: "},
		{"skips in the journal", "s", []check{ok, {ID: "stream-closed", Status: skipped}}, "void 1/2", "s (r): SKIPPED stream-closed: "},
		{"tests nothing", "s", nil, "void 0/1", "s (r): SKIPPED (no check): the scenario has tested nothing"},
		{"tests nothing but the schema", "s", []check{schema}, "void 1/2", "s (r): SKIPPED (no check): the scenario has tested nothing"},
		{"is left out", "tasks-status-notifications", []check{{ID: "tasks-status-notifications", Status: skipped, ErrorMessage: unfinished}}, "(left out)", ""},
		{"is not left out for another reason", "tasks-status-notifications", []check{{ID: "tasks-status-notifications", Status: skipped, ErrorMessage: "tired"}}, "void 0/1",
			"tasks-status-notifications (r): SKIPPED tasks-status-notifications: tired"},
		{"has an excuse but fails", "tasks-status-notifications", []check{{ID: "tasks-status-notifications", Status: failure, ErrorMessage: unfinished}}, "FAIL 0/1",
			"tasks-status-notifications (r): FAILURE tasks-status-notifications: " + unfinished},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &run{name: "run", revision: "r", want: []string{c.scenario}, got: map[string][]check{c.scenario: c.checks}}
			rep := judged(r)
			if got := rep.word(c.scenario, "r"); got != c.word {
				t.Errorf("the table says %q, want %q", got, c.word)
			}
			if got := faults(rep); got != c.faults {
				t.Errorf("faults %q, want %q", got, c.faults)
			}
		})
	}
}

// faults renders the faults of a report.
func faults(rep *report) string {
	var all []string
	for _, f := range rep.faults {
		all = append(all, f.String())
	}
	return strings.Join(all, "|")
}

// A run must have run its scenarios, and agree with the suite.
func TestRuns(t *testing.T) {
	ok, bad := []check{{ID: "a", Status: success}}, []check{{ID: "a", Status: failure, ErrorMessage: "m"}}
	for _, c := range []struct {
		name   string
		runs   []*run
		faults string
	}{
		{"in order", []*run{{want: []string{"s"}, got: map[string][]check{"s": ok}}}, ""},
		{"failed", []*run{{want: []string{"s"}, got: map[string][]check{"s": bad}, exit: 1}}, "s (): FAILURE a: m"},
		{"failed in a scenario that is not required", []*run{{want: []string{"s"}, got: map[string][]check{"s": bad}, exit: 0}}, "s (): FAILURE a: m"},
		{"not run", []*run{{want: []string{"s", "u"}, got: map[string][]check{"s": ok}}}, "u (): FAILURE (no result): it was not run"},
		{"broken off", []*run{{want: []string{"s"}, out: "=== Running scenario: s ===\nFailed: oh\n\n=== SUMMARY ===\n", exit: 1}}, "s (): FAILURE (no result): Failed: oh"},
		{"more than was asked for", []*run{{name: "n", want: []string{"s"}, got: map[string][]check{"s": ok, "u": ok}}}, "n: u was run, which the suite does not list there"},
		{"exit status", []*run{{name: "n", want: []string{"s"}, got: map[string][]check{"s": ok}, exit: 3, out: "why"}}, "n: exit status 3, but nothing has failed: why"},
		{"did not end", []*run{{name: "n", want: []string{"s"}, got: map[string][]check{"s": ok}, err: fmt.Errorf("not done")}}, "n: not done: "},
		{"the same at two revisions", []*run{
			{revision: "2", want: []string{"s"}, got: map[string][]check{"s": bad}},
			{revision: "1", want: []string{"s"}, got: map[string][]check{"s": bad}},
			{revision: "1", want: []string{"s"}, got: map[string][]check{"s": bad}},
		}, "s (1, 2): FAILURE a: m"},
		{"the worst of two runs", []*run{
			{revision: "1", want: []string{"s"}, got: map[string][]check{"s": bad}},
			{revision: "1", want: []string{"s"}, got: map[string][]check{"s": ok}},
		}, "s (1): FAILURE a: m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := judged(c.runs...)
			if got := faults(rep); got != c.faults {
				t.Errorf("faults %q, want %q", got, c.faults)
			}
			if got := rep.word("s", "1"); strings.HasPrefix(c.name, "the ") && got != "FAIL 0/1" {
				t.Errorf("the table says %q", got)
			}
		})
	}
}

// A rule that nothing needs is a fault, and so is a section without a rule.
func TestRules(t *testing.T) {
	all := parseList([]byte("Server scenarios (test against a server):\n  - s [2025-11-25]\n\nPet scenarios:\n  - p\n"))
	rep := newReport(all, nil, 0)
	got := faults(rep)
	for _, want := range []string{`the suite has a section "Pet scenarios", which no rule is about`, "nothing needs the rule about the check sep-2640-* of sep-2640-skills-* any more"} {
		if !strings.Contains(got, want) {
			t.Errorf("faults %q, want %q", got, want)
		}
	}
	if len(rep.faults) != 1+len(excused) {
		t.Errorf("faults %q", got)
	}
	if text := rep.String(); !strings.HasPrefix(text, "scenario") || !strings.Contains(text, "\nfaults:\n") {
		t.Errorf("the report:\n%s", text)
	}
}

func TestParseList(t *testing.T) {
	got := parseList([]byte(`Required for 2026-07-28 (69 scenarios, frozen; run at the 2026-07-28 wire):

Server scenarios (test against a server):
  - server-stateless
  - caching [2026-07-28]
  - sep-2640-skills-manifest [extension]
  - ping [2025-06-18,2025-11-25]

Client scenarios (test against a client):
  - auth/dpop [extension]

Run and reported, but never scored:
  pending (2):
    - json-schema-2020-12 [server]
    - auth/x [client]
`))
	want := catalogue{
		sections: []section{
			{title: "Required for 2026-07-28"},
			{"Server scenarios", []string{"server-stateless", "caching", "sep-2640-skills-manifest", "ping"}},
			{"Client scenarios", []string{"auth/dpop"}},
			{"Run and reported, but never scored", []string{"json-schema-2020-12", "auth/x"}},
		},
		tags: map[string][]string{
			"server-stateless": nil, "caching": {"2026-07-28"}, "sep-2640-skills-manifest": {"extension"},
			"ping": {"2025-06-18", "2025-11-25"}, "auth/dpop": {"extension"}, "json-schema-2020-12": {"server"}, "auth/x": {"client"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	write := func(folder, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "checks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("server-server-x-2026-01-02T03-04-05-678Z", `[{"id":"i","status":"SUCCESS","errorMessage":"e","description":"d","details":[1]}]`)
	write("server-broken-off-2026-01-02T03-04-05-678Z", "")
	got, err := readResults(dir)
	want := map[string][]check{"server-x": {{ID: "i", Status: success, ErrorMessage: "e", Description: "d", Details: []byte("[1]")}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	write("server-y-2026-01-02T03-04-05-678Z", "[{")
	if _, err := readResults(dir); err == nil {
		t.Error("half a file is taken for a result")
	}
	if err := os.RemoveAll(filepath.Join(dir, "server-y-2026-01-02T03-04-05-678Z")); err != nil {
		t.Fatal(err)
	}
	write("other", "[]")
	if _, err := readResults(dir); err == nil {
		t.Error("a folder with an unknown name is taken for a result")
	}
	if _, err := readResults(filepath.Join(dir, "nothing")); err == nil {
		t.Error("no folder is taken for results")
	}
}
