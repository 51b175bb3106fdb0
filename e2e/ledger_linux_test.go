package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A ledger has what servers and the balancer have recorded of calls, for a comparison with what clients know.
type ledger struct {
	runs     map[string]int          // how often servers have run a call, by its id
	balanced map[string]balancedLine // by trace
	read     map[string]int64        // how many bytes of each file were read
}

// A balancedLine is a line of the balancer's log.
type balancedLine struct {
	Traceparent, Upstream string
	Status                int
	UpstreamStatus        string `json:"upstream_status"`
}

// last returns the server that the balancer has asked last. A colon is where another location has gone on.
func (b balancedLine) last() string {
	all := strings.Split(strings.ReplaceAll(b.Upstream, " : ", ", "), ", ")
	return all[len(all)-1]
}

// readLedger reads what servers and the balancer have recorded since it was called last, and returns all.
func (f *fleet) readLedger(t *testing.T) *ledger {
	t.Helper()
	l := &f.records
	if l.read == nil {
		l.runs, l.balanced, l.read = map[string]int{}, map[string]balancedLine{}, map[string]int64{}
	}
	for _, file := range f.audits {
		l.eachLine(t, file, func(line []byte) error {
			var r struct {
				Operation, Stage string
				RequestID        string `json:"request_id"`
			}
			err := json.Unmarshal(line, &r)
			if r.Operation == "tools/call" && r.Stage != "task" { // a task has a record of its own
				l.runs[r.RequestID]++
			}
			return err
		})
	}
	l.eachLine(t, filepath.Join(f.front.cmd.Args[2], "access.log"), func(line []byte) error {
		var b balancedLine
		err := json.Unmarshal(line, &b)
		if parts := strings.Split(b.Traceparent, "-"); len(parts) == 4 {
			l.balanced[parts[1]] = b
		}
		return err
	})
	return l
}

// eachLine reads the lines of a file that were not read before. The last one may not be whole.
func (l *ledger) eachLine(t *testing.T, name string, take func(line []byte) error) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, l.read[name], math.MaxInt64-l.read[name]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			return
		}
		if err := take([]byte(line)); err != nil {
			t.Fatalf("%s: %v: %s", name, err, line)
		}
		l.read[name] += int64(len(line))
	}
}

// check compares what clients know of their calls with the ledger, while nothing is in flight. Only calls that
// ran at the server that was killed may be lost, and be without a record, calls that need the store at the one
// that was stopped, for which an operation has then taken too long, and those during which the store went away, with one
// of the reasons of that. Both servers may be "". It returns how many were lost.
func (l *ledger) check(t *testing.T, calls map[string]*sentCall, killed, stopped string) (lost map[string]int) {
	t.Helper()
	lost = map[string]int{}
	for id, c := range calls {
		at := l.balanced[c.trace]
		mayBeLost := killed != "" && at.last() == killed ||
			stopped != "" && at.last() == stopped && slices.Contains(storingKinds, c.kind) ||
			c.outage && slices.ContainsFunc(outageReasons[c.kind], func(reason string) bool { return strings.Contains(c.lost, reason) })
		switch runs := l.runs[id]; {
		case runs > 1 || c.answers > 1:
			t.Errorf("%s has run %d times and was answered %d times: %+v", id, runs, c.answers, at)
		case c.lost != "" && !mayBeLost:
			t.Errorf("%s is lost: %s: %+v", id, c.lost, at)
		case c.lost != "" && runs == 0:
			lost[c.kind]++
		case c.lost == "" && c.answers == 0:
			t.Errorf("%s: nothing is known of it: %+v", id, at)
		case c.lost == "" && runs == 0 && at.last() != killed:
			t.Errorf("%s was answered, and no server has a record of it: %+v", id, at)
		case c.lost != "":
			lost[c.kind]++
		}
	}
	return lost
}

// outageReasons are why a call is lost during which the store went away, by kind. A client that has hung up a stream whose
// events could not be stored has no id to go on with, or gets 400.
var outageReasons = map[string][]string{
	"resumed stream": {`no more events after ""`, "400 "},
	"question":       {`no more events after ""`, "400 ", "deadline"}, // an outage may be longer than an answer waits
	"task":           {"the store that has the tasks is away"},        // it could not begin
}

// recorded waits until the records of all calls that were answered are there.
func (f *fleet) recorded(t *testing.T, calls map[string]*sentCall, killed string) (l *ledger) {
	t.Helper()
	eventually(t, func() error {
		l = f.readLedger(t)
		for id, c := range calls {
			switch at, ok := l.balanced[c.trace]; {
			case !ok:
				return fmt.Errorf("%s is not in the log of the balancer", id)
			case l.runs[id] == 0 && c.lost == "" && at.last() != killed:
				return errors.New(id + " has no record")
			}
		}
		return nil
	})
	return l
}
