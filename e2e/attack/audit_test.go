package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A record is a line of the audit, with the members that the tests read.
type record struct {
	Subject, Operation, Target, Decision, Outcome, Reason, Stage, Address string

	TraceID string `json:"trace_id"`
	Count   int
}

// stop ends a server in order, so that its records are written.
func (s *target) stop(t *testing.T) {
	t.Helper()
	s.end(t)
	if s.alive() {
		t.Fatal("the server lives")
	}
}

// records reads a file of the audit, each line of which must be one record.
func records(t *testing.T, path string) (all []record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("no record: %v: %.300q", err, line)
		}
		all = append(all, r)
	}
	return all
}

// callsOf counts the records of served calls of a subject.
func callsOf(all []record, subject string) (n int) {
	for _, r := range all {
		if r.Subject == subject && r.Operation == "tools/call" && r.Outcome == "ok" && r.TraceID != "" {
			n++
		}
	}
	return n
}

// A flood of refusals of unknown callers, from as many networks as an attacker can name, makes a bounded
// number of records. They count all of the refusals, and no record of a call is lost.
func TestRefusalsOfUnknownCallersDoNotFillTheAudit(t *testing.T) {
	t.Parallel()
	const (
		refusals = 4000
		calls    = 200
		// 1024 of a minute, and one for each stage for the rest. The flood may touch three minutes.
		most = 3 * (1024 + 19)
	)
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := i.protected(t, "--audit-file", file, "--trusted-proxies", attacker)
	undisturbed := s.others(t)
	good, c, what := s.caller(t, bystanders, "ann"), s.caller(t, attacker, ""), echo("x")
	for n := range refusals {
		h := what.header()
		h.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.9", n/250, n%250))
		if n%2 == 0 {
			h.Set("Authorization", "Bearer wrong")
		}
		if r := c.must(t, http.MethodPost, h, what.frame(n, true)); r.status != http.StatusUnauthorized {
			t.Fatalf("refusal %d: %d %s", n, r.status, r.body)
		}
		if n%(refusals/calls) == 0 {
			if r := good.modern(t, n, what); r.text() != "x" {
				t.Errorf("a good caller during the flood: %d %s", r.status, r.body)
			}
		}
	}
	undisturbed()
	s.stop(t)
	all := records(t, file)
	lines, counted := 0, 0
	for _, r := range all {
		switch r.Operation {
		case "audit/refused":
			lines++
			counted += r.Count
		case "audit/lost":
			t.Errorf("%d records were lost", r.Count)
		}
	}
	if lines > most || counted != refusals {
		t.Errorf("%d refusals have made %d records that count %d, want at most %d that count all", refusals, lines, counted, most)
	}
	if n := callsOf(all, "ann"); n != calls {
		t.Errorf("%d records of %d calls", n, calls)
	}
}

// While the disk is full no call waits or fails, and no record of them is lost: they are written when
// there is room. The limit on the size of files of a process stands for a full disk.
func TestAFullDiskHurtsNoCall(t *testing.T) {
	t.Parallel()
	const calls = 100
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := i.protected(t, "--audit-file", file, "--audit-key-file", writeFile(t, "key", auditKey))
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	full := &unix.Rlimit{Cur: 4 << 10}
	var before unix.Rlimit
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	full.Max = before.Max
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, full, nil); err != nil {
		t.Fatal(err)
	}
	for n := range calls {
		if r := ann.modern(t, n, echo("x")); r.text() != "x" {
			t.Errorf("call %d: %d %s", n, r.status, r.body)
		}
	}
	eventually(t, func() error {
		if s.metrics(t).sum("vitrine_audit_write_failures_total") == 0 {
			return errors.New("no write has failed")
		}
		return nil
	})
	if info, err := os.Stat(file); err != nil || info.Size() > 4<<10 {
		t.Errorf("the file has grown over the limit: %v %v", info.Size(), err)
	}
	undisturbed()
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	whole := 0
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) { // one line is torn: where the disk was full
		var r record
		if json.Unmarshal([]byte(line), &r) == nil {
			whole += callsOf([]record{r}, "ann")
		}
	}
	if whole != calls {
		t.Errorf("%d records of %d calls", whole, calls)
	}
	if out, err := s.verifyAudit(t, file, auditKey); err != nil {
		t.Errorf("the file that was written on a full disk: %v\n%s", err, out)
	}
}

// auditKey is the key of the audit.
var auditKey = strings.Repeat("0123456789abcdef", 4)

// A sink that hangs, a pipe that nobody reads, hurts no call: records that have no place are lost, and
// counted. A strict server refuses what it could not record, until the pipe is read.
func TestAHangingAudit(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(map[bool]string{false: "lossy", true: "strict"}[strict], func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			s := attacked(t, "--audit-pipe", path, fmt.Sprintf("--audit-pipe-strict=%v", strict))
			undisturbed := s.others(t)
			c := s.caller(t, attacker, "ann")
			statuses := map[int]int{}
			for n := range 600 { // the pipe takes 64 KiB, and 64 records wait
				r := c.modern(t, n, echo("x"))
				statuses[r.status]++
				if r.status != http.StatusOK && (r.status != http.StatusServiceUnavailable || r.Error == nil || r.Error.Data.Reason != "audit") {
					t.Errorf("call %d: %d %s", n, r.status, r.body)
				}
			}
			lost := s.metrics(t).sum("vitrine_audit_records_lost_total")
			switch {
			case !strict && (statuses[http.StatusOK] != 600 || lost == 0):
				t.Errorf("%v, and %v records were lost", statuses, lost)
			case strict && (statuses[http.StatusServiceUnavailable] == 0 || statuses[http.StatusOK] < 64 || lost != 0):
				t.Errorf("strict: %v, and %v records were lost", statuses, lost)
			}
			s.readPipe(t, path)
			eventually(t, func() error {
				if r := c.modern(t, 1, echo("x")); r.text() != "x" {
					return fmt.Errorf("after the pipe was read: %d %s", r.status, r.body)
				}
				return nil
			})
			undisturbed()
		})
	}
}

// readPipe reads a pipe until the end of the test.
func (s *target) readPipe(t *testing.T, path string) {
	t.Helper()
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	readLines(pipe)
}

// A pipe as the file of the audit is refused at the start: it could hang.
func TestAPipeIsNoFileForTheAudit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newTarget("victim", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--audit-file", path)
	out, err := s.cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no regular file") {
		t.Errorf("%v: %s", err, out)
	}
}

// Texts of clients come into the record as texts: each operation has one line, nothing is forged, and a
// terminal can show it.
func TestTextsOfClientsAreTextInTheAudit(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := i.protected(t, "--audit-file", file, "--auth-optional")
	undisturbed := s.others(t)
	texts := append(slices.Clone(hostile), `","outcome":"ok","subject":"root`, "x\",\"operation\":\"audit/lost\",\"count\":1,\"y\":\"",
		"\n{\"operation\":\"audit/close\"}\n", "forged\x00", "\\u000a{}", strings.Repeat("\x01", 5000), "\xff\xfe")
	for _, text := range texts {
		s.sayEverywhere(t, text)
		c := s.caller(t, attacker, "")
		quoted := quote(text)
		for _, what := range []call{
			{method: "prompts/get", params: `"name":` + quoted, name: text}, {method: "resources/read", params: `"uri":` + quoted, name: text},
			about("tasks/get", text, ""), {tool: text},
		} {
			c.modern(t, json.RawMessage(quoted), what)
		}
		text = text[:min(len(text), 1000)] // longer ones are no tokens
		for _, claims := range []object{{"sub": text}, {"client_id": text}, {"act": object{"sub": text}}, {"scope": text}} {
			c.sendToken(t, "Bearer "+i.Sign(nil, claims))
		}
	}
	undisturbed()
	s.stop(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		checkPrintable(t, "the audit", line)
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(line), &members); err != nil || len(line) > 32<<10 {
			t.Fatalf("no record, or a long one (%d bytes): %v: %.300q", len(line), err, line)
		}
	}
	all := records(t, file)
	if len(all) < 10*len(texts) {
		t.Errorf("only %d records", len(all))
	}
	for _, r := range all {
		if r.Subject == "root" || r.Operation == "audit/lost" || r.Operation == "audit/close" || r.Operation == "forged" {
			t.Errorf("a forged record: %+v", r)
		}
	}
}

// verifyAudit runs "vitrine audit verify" with the log of the server.
func (s *target) verifyAudit(t *testing.T, file, key string) (string, error) {
	t.Helper()
	log := writeFile(t, "server.log", strings.Join(s.log.all(), ""))
	out, err := exec.Command(filepath.Join(programs, "vitrine"), "audit", "verify",
		"--key-file", writeFile(t, "key", key), "--heads", log, file).CombinedOutput()
	return string(out), err
}

// Whatever somebody does to the record, "vitrine audit verify" finds it.
func TestTamperingWithTheAuditIsFound(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := i.protected(t, "--audit-file", file, "--audit-key-file", writeFile(t, "key", auditKey))
	ann, mallory := s.caller(t, bystanders, "ann"), s.caller(t, attacker, "mallory")
	for n := range 10 {
		ann.modern(t, n, echo("x"))
		mallory.modern(t, n, echo("y"))
	}
	s.stop(t)
	if out, err := s.verifyAudit(t, file, auditKey); err != nil || !strings.Contains(out, "no fault") {
		t.Fatalf("untouched: %v\n%s", err, out)
	}
	if out, err := s.verifyAudit(t, file, strings.Repeat("f", 64)); err == nil {
		t.Errorf("with another key: %s", out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tampered := map[string]func(l []string) []string{
		"somebody else": func(l []string) []string { l[4] = swapped(l[4]); return l }, "a space": func(l []string) []string { l[4] += " "; return l },
		"removed": func(l []string) []string { return slices.Delete(l, 4, 5) }, "repeated": func(l []string) []string { return slices.Insert(l, 4, l[4]) },
		"moved": func(l []string) []string { l[4], l[7] = l[7], l[4]; return l }, "the end": func(l []string) []string { return l[:len(l)-3] },
		"the beginning": func(l []string) []string { return l[3:] }, "everything": func([]string) []string { return nil },
		"inserted": func(l []string) []string { return slices.Insert(l, 4, `{"operation":"tools/call","subject":"ann"}`) },
		"without codes": func(l []string) []string {
			for n := range l {
				l[n] = `{"operation":"tools/call","outcome":"ok"}`
			}
			return l
		},
	}
	for _, name := range slices.Sorted(maps.Keys(tampered)) {
		changed := strings.Join(tampered[name](strings.Split(strings.TrimSpace(string(text)), "\n")), "\n") + "\n"
		if out, err := s.verifyAudit(t, writeFile(t, "audit.jsonl", changed), auditKey); err == nil || strings.Contains(out, "no fault") {
			t.Errorf("%s: nothing was found\n%s", name, out)
		}
	}
}

// swapped replaces the subject of a line.
func swapped(line string) string {
	return strings.NewReplacer(`"subject":"ann"`, `"subject":"bob"`, `"subject":"mallory"`, `"subject":"nobody"`).Replace(line)
}
