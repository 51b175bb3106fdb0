package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

const (
	modules = "../node/node_modules" // of npm
	npmName = "@modelcontextprotocol/conformance"
)

// revisions are those that the suite has scenarios for.
var revisions = []string{"2025-03-26", "2025-06-18", "2025-11-25", modern}

// modern is the revision at which extensions are tested.
const modern = "2026-07-28"

// runLimit is how long one run of the suite may take. It waits for an answer for 30
// seconds at most, in each scenario.
const runLimit = 3 * time.Minute

// A suite is the installed suite.
type suite struct {
	node, script string
	results      string // folder for its output
}

// findSuite finds the suite. The test is skipped if it is not installed, or not in the
// version that e2e/node asks for.
func findSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{results: t.ArtifactDir()}
	for path, file := range map[*string]string{
		&s.node: "node/bin/node", &s.script: npmName + "/dist/index.js",
	} {
		var err error
		if *path, err = filepath.Abs(filepath.Join(modules, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(*path); err != nil {
			needs.Skip(t, "e2e/conformance", "npm packages of e2e/node not installed")
		}
	}
	var wanted struct{ Dependencies map[string]string }
	var installed struct{ Version string }
	readJSON(t, "../node/package.json", &wanted)
	readJSON(t, filepath.Join(modules, npmName, "package.json"), &installed)
	if want := wanted.Dependencies[npmName]; installed.Version != want {
		needs.Skip(t, "e2e/conformance", fmt.Sprintf("installed is %s %s, not %s", npmName, installed.Version, want))
	}
	return s
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// call runs the suite and returns its exit status and its output. The goroutine must be locked to
// its thread, see dieWithTests.
func (s *suite) call(ctx context.Context, args ...string) (exit int, out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, append([]string{s.script}, args...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.results, cleanEnv(), dieWithTests()
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		return 0, out, fmt.Errorf("not done within %v", runLimit)
	}
	if exited := new(exec.ExitError); errors.As(err, &exited) && exited.Exited() {
		return exited.ExitCode(), out, nil
	}
	return 0, out, err
}

// A catalogue is the list of the suite: the scenarios of each section, and for each scenario its
// tags, which are revisions or "extension".
type catalogue struct {
	sections []section
	tags     map[string][]string
}

type section struct {
	title     string
	scenarios []string
}

var (
	listTitle = regexp.MustCompile(`^(\w[^(:]*\w)( \([^)]*\))?:$`)
	listEntry = regexp.MustCompile(`^ +- (\S+)(?: \[([^\]]*)\])?$`)
)

// parseList reads the output of the suite's command list: titles, and below them
// scenarios with their tags in brackets.
func parseList(out []byte) catalogue {
	c := catalogue{tags: map[string][]string{}}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\r\n")
		if m := listTitle.FindStringSubmatch(line); m != nil {
			c.sections = append(c.sections, section{title: m[1]})
		} else if m := listEntry.FindStringSubmatch(line); m != nil && len(c.sections) > 0 {
			at := &c.sections[len(c.sections)-1]
			at.scenarios = append(at.scenarios, m[1])
			c.tags[m[1]] = append(c.tags[m[1]], strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })...)
		}
	}
	return c
}

// section returns the scenarios of the sections with a title.
func (c catalogue) section(title string) (scenarios []string) {
	for _, s := range c.sections {
		if s.title == title {
			scenarios = append(scenarios, s.scenarios...)
		}
	}
	return scenarios
}

// The titles of the suite's lists.
const (
	serverScenarios = "Server scenarios"
	alsoRun         = "Run and reported, but never scored"
)

// list calls the command list of the suite.
func (s *suite) list(t *testing.T, args ...string) catalogue {
	t.Helper()
	exit, out, err := s.call(t.Context(), append([]string{"list"}, args...)...)
	if err != nil || exit != 0 {
		t.Fatalf("list %v: exit status %d, %v\n%s", args, exit, err, out)
	}
	c := parseList(out)
	if len(c.section(serverScenarios)) == 0 {
		t.Fatalf("list %v names no scenarios for servers:\n%s", args, out)
	}
	return c
}

// A run is one call of the suite, and then its outcome.
type run struct {
	name     string
	revision string
	args     []string
	want     []string // the scenarios that it must run

	got  map[string][]check
	exit int
	took time.Duration
	err  error  // it could not be started, or did not end
	out  string // its output
}

// A check is the result of one check of the suite.
type check struct {
	ID, Status, ErrorMessage, Description string
	Details                               json.RawMessage
}

// The statuses of a check.
const (
	success = "SUCCESS"
	failure = "FAILURE"
	warning = "WARNING"
	info    = "INFO"
	skipped = "SKIPPED"
)

// plan reads the catalogue of the suite, and plans all runs for servers: the requirements of the
// revisions, all scenarios of each revision, and scenarios without a revision.
func (s *suite) plan(t *testing.T) (all catalogue, runs []*run) {
	t.Helper()
	all = s.list(t)
	for _, revision := range []string{"2025-11-25", modern} {
		required := s.list(t, "--requirements", revision)
		r := &run{name: "requirements " + revision, revision: revision, args: []string{"--requirements", revision}, want: required.section(serverScenarios)}
		for name, tags := range required.tags {
			if slices.Contains(tags, "server") { // run, but not required: it counts here
				r.want = append(r.want, name)
			}
		}
		runs = append(runs, r)
	}
	for _, revision := range revisions {
		r := &run{name: "all of " + revision, revision: revision, args: []string{"--suite", "all", "--spec-version", revision}}
		for _, name := range all.section(serverScenarios) {
			if slices.Contains(all.tags[name], revision) {
				r.want = append(r.want, name)
			}
		}
		if len(r.want) == 0 {
			t.Fatalf("the suite has no scenarios for %s", revision)
		}
		runs = append(runs, r)
	}
	for _, name := range all.section(serverScenarios) {
		if !slices.ContainsFunc(runs, func(r *run) bool { return slices.Contains(r.want, name) }) {
			runs = append(runs, &run{name: name, revision: modern, args: []string{"--scenario", name}, want: []string{name}})
		}
	}
	return all, runs
}

// execute runs the suite once.
func (s *suite) execute(ctx context.Context, url string, r *run) {
	begin := time.Now()
	dir := filepath.Join(s.results, strings.ReplaceAll(r.name, " ", "-"))
	exit, out, err := s.call(ctx, append([]string{"server", "--url", url, "--output-dir", dir}, r.args...)...)
	r.exit, r.out, r.took = exit, string(out), time.Since(begin)
	got, readErr := readResults(dir)
	r.got = got
	r.err = errors.Join(err, readErr, os.WriteFile(dir+".txt", out, 0o600))
}

// resultDir matches the folders in which the suite leaves its results.
var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// readResults reads the results of a run. A scenario whose file is missing has broken off.
func readResults(dir string) (map[string][]check, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	got := map[string][]check{}
	for _, e := range entries {
		m := resultDir.FindStringSubmatch(e.Name())
		if m == nil {
			return got, fmt.Errorf("%s is not the name of a result", e.Name())
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "checks.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return got, err
		}
		var checks []check
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&checks); err != nil {
			return got, fmt.Errorf("%s: %w", e.Name(), err)
		}
		got[m[1]] = append(got[m[1]], checks...)
	}
	return got, nil
}
