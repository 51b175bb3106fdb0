//go:build unix

package cost

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/e2e/bound"
)

var (
	search  = flag.Duration("search", 5*time.Second, "how long to search")
	only    = flag.String("only", "", "search the targets with this in their name")
	seed    = flag.Uint64("seed", 0, "of the search; 0 is another one each time")
	payload = flag.String("payload", "", "measure the payload in this file, for the targets of -only")
)

// Bounds on what a request costs, beside those of package bound.
const (
	maxRatio = bound.SmallRatio // of CPU and of memory to those of an echo of as many bytes
	maxSmall = bound.SmallBytes // of a payload for which the ratio must hold
	maxLarge = 4<<20 - 1<<10    // bytes
	fewBytes = 1 << 20          // what a request may allocate, however small it is: a validation begins with some
	// maxLargeBytes is what a message of 4 MiB may allocate beyond its echo. Less than 64 MiB of that
	// is there at once, because what grows doubles.
	maxLargeBytes = 96 << 20
)

// A candidate is a payload with its cost.
type candidate struct {
	payload string
	cpu     float64 // ratios to an echo
	bytes   float64
}

func (c candidate) score() float64 { return max(c.cpu, c.bytes) }

// sizes are the classes of payloads that do not compete.
var sizes = []int{256, 1 << 10, 4 << 10, 16 << 10, maxSmall}

func class(size int) int {
	i, _ := slices.BinarySearch(sizes, size)
	return min(i, len(sizes)-1)
}

// kept is how many candidates of each class a target keeps.
const kept = 4

// A hunt is the search in one target.
type hunt struct {
	target
	best  [][]candidate // by class, the costliest first
	tries int
}

func newHunt(t target) *hunt { return &hunt{target: t, best: make([][]candidate, len(sizes))} }

func (h *hunt) all() []candidate { return slices.Concat(h.best...) }

// keep keeps a candidate if it is among the costliest.
func (h *hunt) keep(c candidate) {
	list := &h.best[class(len(c.payload))]
	*list = append(*list, c)
	slices.SortStableFunc(*list, func(a, b candidate) int {
		if a.score() > b.score() {
			return -1
		}
		return 1
	})
	*list = (*list)[:min(len(*list), kept)]
}

func (h *hunt) worst() (worst candidate) {
	for _, c := range h.all() {
		if c.score() > worst.score() {
			worst = c
		}
	}
	return worst
}

// A searcher searches all targets.
type searcher struct {
	*meter
	mutator
	tb    testing.TB
	dir   string // of the payloads that are reported
	hunts []*hunt
}

func newSearcher(tb testing.TB) *searcher {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	tb.Logf("seed %d", *seed)
	s := &searcher{meter: newMeter(tb), mutator: mutator{rand.New(rand.NewPCG(*seed, 1))}, tb: tb, dir: os.TempDir()}
	for _, t := range targets() {
		if strings.Contains(t.name, *only) {
			s.hunts = append(s.hunts, newHunt(t))
		}
	}
	slices.SortFunc(s.hunts, func(a, b *hunt) int { return strings.Compare(a.name, b.name) })
	return s
}

// measured returns a payload with its cost for a target.
func (s *searcher) measured(t target, payload string, rounds int) candidate {
	r := t.request(payload)
	c, echo := s.measure(r, rounds), s.echoOf(r)
	if t.name == servedBatch {
		echo = s.measure(t.echo(r), rounds)
	}
	return t.candidate(payload, c, echo)
}

// argumentBytes is the default of max_argument_bytes.
const argumentBytes = 48 << 20

// candidate compares a payload with an echo. Arguments that become a Go value have a limit of their own,
// so their memory is compared with that: what an empty row takes depends on its Go type.
func (t target) candidate(payload string, c, echo cost) candidate {
	memory := float64(c.bytes) / float64(echo.bytes)
	if t.name == typedArguments {
		memory = min(memory, float64(c.bytes)/argumentBytes*maxRatio)
	}
	if c.bytes <= fewBytes {
		memory = min(memory, maxRatio)
	}
	return candidate{payload, c.ratio(echo), memory}
}

// try measures a payload and keeps it if it costs much.
func (s *searcher) try(h *hunt, payload string) {
	h.tries++
	c := s.measured(h.target, payload, 1)
	list := h.best[class(len(payload))]
	if len(list) == kept && c.score() <= list[kept-1].score() {
		return
	}
	c = s.measured(h.target, payload, 3)
	if c.score() > maxRatio/2 {
		c = s.confirm(h, payload)
	}
	h.keep(c)
}

// Rounds in which a costly payload is compared with an echo, and one that seems to cost too much. There are fewer, but
// fewRounds at least, once they have taken enoughTime: what takes long is measured well in a few.
const (
	fewRounds  = 5
	someRounds = 11
	manyRounds = 51
	enoughTime = 2 * time.Second // of CPU
)

// confirm measures a payload and an echo in turn, so that what else the machine does disturbs both,
// and reports a finding.
func (s *searcher) confirm(h *hunt, payload string) candidate {
	c, echo := s.both(h.target, payload, someRounds)
	found := h.candidate(payload, c, echo)
	if found.score() > maxRatio {
		c, echo = s.both(h.target, payload, manyRounds)
		found = h.candidate(payload, c, echo)
	}
	if found.score() > maxRatio {
		s.report(h, payload, fmt.Sprintf("%.0f × the CPU of an echo of as many bytes (%v), %.0f × its memory (%d KiB); at most %d × is allowed",
			found.cpu, c.cpu, found.bytes, c.bytes>>10, maxRatio))
	}
	return found
}

// both measures a payload and an echo of as many bytes in turn, for as much time each, so that what happens beside, such
// as a run of the garbage collector, is a part of both. It returns the round with the middle one of the ratios.
func (s *searcher) both(t target, payload string, rounds int) (c, echo cost) {
	r := t.request(payload)
	other := t.echo(r)
	type pair struct{ c, echo cost }
	var pairs []pair
	var all time.Duration
	for len(pairs) < fewRounds || len(pairs) < rounds && all < enoughTime {
		c, took := s.round(r, shortest)
		echo, again := s.round(other, took)
		pairs, all = append(pairs, pair{c, echo}), all+took+again
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.c.ratio(a.echo), b.c.ratio(b.echo)) })
	middle := pairs[len(pairs)/2]
	return middle.c, middle.echo
}

func (s *searcher) report(h *hunt, payload, what string) {
	file := filepath.Join(s.dir, fmt.Sprintf("cost-%s-%d", strings.Map(fileName, h.name), len(payload)))
	require.NoError(s.tb, os.WriteFile(file, []byte(payload), 0o600))
	s.tb.Errorf("%s: %s: %d bytes, HTTP %d, in %s: %.200q", h.name, what, len(payload), s.status, file, payload)
}

// fileName replaces what a file name should not have.
func fileName(c rune) rune {
	if strings.ContainsRune(" /", c) {
		return '-'
	}
	return c
}

// enlarge makes a payload of one large message from a costly small one, and checks its bounds.
func (s *searcher) enlarge(h *hunt, payload string) {
	for len(payload) < maxLarge/2 {
		next := s.mutate(h.json, payload, []string{payload}, maxLarge)
		if len(next) <= len(payload) {
			next = h.double(payload)
		}
		payload = next
	}
	s.tryLarge(h, payload)
}

// tryLarge checks the bounds of a large message.
func (s *searcher) tryLarge(h *hunt, payload string) {
	h.tries++
	r := h.request(payload)
	ratio := time.Duration(bound.LargeRatio)
	if h.name == typedArguments || h.name == looseArguments {
		ratio = bound.LargeDecodedRatio
	}
	costly := func(c, echo cost) bool {
		return c.cpu > max(bound.CPU, ratio*echo.cpu) || c.bytes > maxLargeBytes+echo.bytes
	}
	if once, _ := s.round(r, shortest); !costly(once, s.echoOf(r)) {
		return
	}
	if c, echo := s.both(h.target, payload, someRounds); costly(c, echo) {
		s.report(h, payload, fmt.Sprintf("%v of CPU and %d MiB, and its echo takes %v and %d MiB", c.cpu, c.bytes>>20, echo.cpu, echo.bytes>>20))
	}
}

// double returns a payload twice.
func (t target) double(payload string) string {
	if t.json {
		return "[" + payload + "," + payload + "]"
	}
	return payload + payload
}

// TestNoRequestCostsMoreThanItsBytes tries the seeds of all targets and searches for what costs more.
func TestNoRequestCostsMoreThanItsBytes(t *testing.T) {
	s := newSearcher(t)
	if *payload != "" {
		s.again(*payload)
		return
	}
	s.plant()
	s.run(time.Now().Add(*search))
	s.summary()
}

// TestBatchesAreServed shows that the seeds of batches, and their echoes, are no refusals.
func TestBatchesAreServed(t *testing.T) {
	m := newMeter(t)
	echo := target{name: servedBatch}.echo(request{body: batches()[0]}).body
	for _, batch := range append(batches(), echo) {
		req := m.base.Clone(m.base.Context())
		for name, value := range m.headers(request{header: map[string]string{sessionHeader: batchesMark}}) {
			req.Header.Set(name, value)
		}
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(batch)), int64(len(batch))
		said := httptest.NewRecorder()
		m.handler.ServeHTTP(said, req)
		if strings.Contains(batch, "notifications/") {
			require.Equal(t, http.StatusAccepted, said.Code, said.Body)
			continue
		}
		require.Equal(t, http.StatusOK, said.Code, said.Body)
		require.Equal(t, 100, strings.Count(said.Body.String(), `"result":`), "%.300s", said.Body)
	}
}

// plant tries the seeds of all targets, as they are and grown: costly sizes are not found by chance.
func (s *searcher) plant() {
	for _, h := range s.hunts {
		for _, seed := range h.seeds {
			s.try(h, seed)
			for _, grown := range h.grown(seed, h.most) {
				s.try(h, grown)
			}
			if h.name != typedArguments && *search < longSearch {
				continue
			}
			for _, grown := range h.grown(seed, maxLarge) {
				s.tryLarge(h, grown)
			}
		}
		for size := len(h.seeds[0]); size < h.most; size *= 4 {
			s.try(h, s.mutate(h.json, pick(s.mutator, h.seeds), h.seeds, size))
		}
	}
}

// longSearch is how long a search is that tries large messages of all seeds, and not only those that
// become Go values.
const longSearch = time.Minute

// run searches until a time.
func (s *searcher) run(end time.Time) {
	for time.Now().Before(end) {
		h := pick(s.mutator, s.hunts)
		parents := h.all()
		var others []string
		for _, c := range parents {
			others = append(others, c.payload)
		}
		others = append(others, h.seeds...)
		parent := pick(s.mutator, others)
		if h.most == maxSmall && s.IntN(200) == 0 {
			s.enlarge(h, parent)
			continue
		}
		s.try(h, s.mutate(h.json, parent, others, pick(s.mutator, sizes)*h.most/maxSmall))
	}
}

// again measures the payload of an earlier finding.
func (s *searcher) again(file string) {
	raw, err := os.ReadFile(file)
	require.NoError(s.tb, err)
	for _, h := range s.hunts {
		c := s.confirm(h, string(raw))
		s.tb.Logf("%s: %.1f × CPU, %.1f × memory", h.name, c.cpu, c.bytes)
	}
}

// summary prints the costliest payload of each target.
func (s *searcher) summary() {
	tries := 0
	for _, h := range s.hunts {
		tries += h.tries
	}
	s.tb.Logf("%d payloads", tries)
	byScore := map[*hunt]float64{}
	for _, h := range s.hunts {
		byScore[h] = h.worst().score()
	}
	order := slices.SortedFunc(maps.Keys(byScore), func(a, b *hunt) int {
		if byScore[a] > byScore[b] {
			return -1
		}
		return 1
	})
	for _, h := range order {
		worst := h.worst()
		s.tb.Logf("%-45s %5d tries, at most %4.1f × CPU, %4.1f × memory: %6d bytes: %.60q", h.name, h.tries, worst.cpu, worst.bytes, len(worst.payload), worst.payload)
	}
}

// complaints has what a search reports.
type complaints struct {
	testing.TB
	found []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// The search finds a tool whose handler takes a time that grows with the square of its arguments.
func TestSearchFindsWhatCostsTooMuch(t *testing.T) {
	s := newSearcher(t)
	c := &complaints{TB: t}
	s.tb, s.dir = c, t.TempDir()
	s.hunts = []*hunt{newHunt(target{"pairs", true, []string{"[1,2]"}, 8 << 10, call("pairs")})}
	s.plant()
	for end := time.Now().Add(5 * time.Minute); len(c.found) == 0 && time.Now().Before(end); {
		s.run(time.Now().Add(100 * time.Millisecond))
	}
	require.NotEmpty(t, c.found)
	require.Contains(t, c.found[0], "the CPU of an echo")
	t.Logf("after %d tries: %s", s.hunts[0].tries, c.found[0])
}
