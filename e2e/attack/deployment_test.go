package attack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A deployment is a file that bounds the memory of a server. --max-memory is three quarters of it:
// the chart says so (memoryLimitPercent), and under systemd the server itself.
type deployment struct {
	name, file string
	bound      string // the figure in the file
	unit       int64
}

var deployments = []deployment{
	{"Helm chart", "helm/vitrine/values.yaml", `(?m)^  limits: {memory: (\d+)Gi}$`, 1 << 30},
	{"systemd unit", "systemd/vitrine.service", `(?m)^MemoryMax=(\d+)M$`, 1 << 20},
}

// memory reads how many bytes the server may take.
func (d deployment) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", d.file))
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(d.bound).FindSubmatch(text)
	if figure == nil {
		t.Fatalf("%s has no line %s", d.file, d.bound)
	}
	units, err := strconv.ParseInt(string(figure[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return units * d.unit * 3 / 4
}

// A largeCall is a call with large arguments, most of them wrong.
type largeCall struct {
	name string
	what call
	says string // what the answer has: the fault, or the result
}

// largeCalls returns calls with arguments of about n bytes.
func largeCalls(n int) []largeCall {
	list := func(tool, items string) call {
		return call{tool: tool, arguments: fmt.Sprintf(`{%q:[%s]}`, tool, items)}
	}
	const digits = "1234567890123456"
	deep := strings.Repeat("[", 50) + strings.Repeat("]", 50)
	unique := call{tool: "unique", arguments: `{"values":[` + distinct(n) + `,0]}`}
	unknown := call{tool: "echo", arguments: `{"text":"x",` + manyNames(n/12) + `}`}
	return []largeCall{
		{"two million numbers instead of strings", list("words", fill("1", n)), "the decoded value takes more than"},
		{"numbers instead of strings", list("words", fill(digits, n)), "/words/0: must be a string, got number"},
		{"deep arrays instead of strings", list("words", fill(deep, n)), "/words/0: must be a string, got array"},
		{"unknown members", unknown, `unknown property "m0"`},
		{"two equal items at the ends", unique, "items must be unique, items 0 and "},
		{"one valid string", list("anything", `"`+strings.Repeat("x", n)+`"`), "something"},
		{"valid numbers", list("numbers", fill(digits, n)), fmt.Sprint(n / len(digits+","))},
	}
}

// Large calls that come together fit into the memory that our deployments allow. Each gets a short
// answer that says what is wrong, and others are served.
func TestLargeCallsFitIntoOurDeployments(t *testing.T) {
	t.Parallel()
	calls := largeCalls(maxFrame - 1000)
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			memory := d.memory(t)
			s := attacked(t, "--max-memory", fmt.Sprint(memory))
			for _, large := range calls {
				undisturbed := s.others(t)
				s.forgetPeak(t)
				s.together(t, large)
				undisturbed()
				s.fitsInto(t, memory, large.name)
			}
		})
	}
}

// together makes a call six times at once, three of them in sessions, and checks the answers. A call
// that the server refuses because of a limit is made again after a pause.
func (s *target) together(t *testing.T, large largeCall) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var callers []*caller
	for i := range 6 {
		callers = append(callers, s.caller(t, attackerAddress(i), ""))
		if i >= 3 {
			callers[i].initialize(t)
		}
	}
	var all sync.WaitGroup
	for i, c := range callers {
		header := large.what.header()
		if i >= 3 {
			header = c.sessionHeader()
		}
		frame := large.what.frame(i, i < 3)
		all.Go(func() {
			r, err := c.send(ctx, http.MethodPost, header, frame)
			for err == nil && r.status == http.StatusTooManyRequests && r.limit() != "" {
				time.Sleep(100 * time.Millisecond)
				r, err = c.send(ctx, http.MethodPost, header, frame)
			}
			said := r.text()
			if r.Error != nil {
				said = r.Error.Message
			}
			if err != nil || string(r.ID) != fmt.Sprint(i) || !strings.Contains(said, large.says) || len(r.body) > 2000 {
				t.Errorf("%s: %v %d, %d bytes: %.300s", large.name, err, r.status, len(r.body), r.body)
			}
		})
	}
	all.Wait()
}
