package attack

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/e2e/bound"
)

// A costly is a call whose arguments were made to cost much.
type costly struct {
	name string
	what call
}

// fill repeats a text as often as it fits into n bytes, with commas between.
func fill(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", max(1, n/(len(text)+1))), ",")
}

// costlies returns the calls with arguments of about n bytes. Some are small, and grow in depth.
func costlies(n int) []costly {
	nested := func(depth int, end string) string {
		return strings.Repeat(`{"next":`, depth) + end + strings.Repeat("}", depth)
	}
	object := func(tool, member, value string) call {
		return call{tool: tool, arguments: fmt.Sprintf(`{%q:%s}`, member, value)}
	}
	return []costly{
		{"a tree that matches no alternative", object("tree_anyOf", "tree", nested(18, "1"))},
		{"a deep tree that matches no alternative", object("tree_anyOf", "tree", nested(50, "1"))},
		{"a tree that matches two alternatives", object("tree_oneOf", "tree", nested(18, `"x"`))},
		{"a deep tree that matches two alternatives", object("tree_oneOf", "tree", nested(50, `"x"`))},
		{"numbers instead of strings", object("words", "words", "["+fill("1", n)+"]")},
		{"arrays instead of strings", object("words", "words", "["+fill("[]", n)+"]")},
		{"strings instead of numbers", object("numbers", "numbers", "["+fill(`"1"`, n)+"]")},
		{"fractions instead of numbers", object("numbers", "numbers", "["+fill("1.5", n)+"]")},
		{"integers with a fraction", object("numbers", "numbers", "["+fill("2.0", n)+"]")},
		{"large integers with an exponent", object("numbers", "numbers", "["+fill("1e18", n)+"]")},
		{"integers with an exponent", object("numbers", "numbers", "["+fill("1e512", n)+"]")},
		{"numbers", object("numbers", "numbers", "["+fill("1234567", n)+"]")},
		{"numbers with large exponents", object("numbers", "numbers", "["+fill("1e5000", n)+"]")},
		{"numbers near zero", object("measures", "measures", "["+fill("7e-320", n)+"]")},
		{"numbers of many digits", object("measures", "measures", "["+fill(strings.Repeat("7", 190)+"e-500", n)+"]")},
		{"numbers near zero, of any type", object("anything", "anything", "["+fill("7e-320", n)+"]")},
		{"many members of a map of integers", object("counts", "counts", "{"+manyNames(n/12)+"}")},
		{"many members of a map of integers, in any notation", object("counts", "counts", "{"+strings.ReplaceAll(manyNames(n/15), ":0", ":1e18")+"}")},
		{"many members of a map of texts", object("counts", "labels", "{"+strings.ReplaceAll(manyNames(n/13), ":0", `:""`)+"}")},
		{"many members, and numbers near zero", object("anything", "anything", "["+fill("7e-320", 700)+",{"+manyNames(n/12)+"}]")},
		{"short numbers, of any type", object("anything", "anything", "["+fill("1234", n)+"]")},
		{"objects, of any type", object("anything", "anything", "["+fill(`{"a":1}`, n)+"]")},
		{"short texts, of any type", object("anything", "anything", "["+fill(`"xyz"`, n)+"]")},
		{"numbers, and a text", object("measures", "measures", "["+fill("1", n)+`,"x"]`)},
		{"one number of many digits", object("numbers", "numbers", "["+strings.Repeat("9", n)+"]")},
		{"items that differ", object("unique", "values", "["+distinct(n)+"]")},
		{"items whose hashes are alike", object("unique", "values", "["+shapes(n)+"]")},
		{"items that are equal", object("unique", "values", "["+fill("[[[]]]", n)+"]")},
		{"unknown members", call{tool: "echo", arguments: `{"text":"x",` + manyNames(n/12) + `}`}},
		{"answers to what nobody has asked", call{tool: "ask", extra: `"inputResponses":{` + manyNames(n/12) + "}"}},
		{"members that are missing", object("words", "x", "["+fill("{}", n)+"]")},
		{"a text of two-byte letters", object("echo", "text", `"`+strings.Repeat("é", n/2)+`"`)},
		{"a text of escapes", object("echo", "text", `"`+strings.Repeat(`\u00e9`, n/6)+`"`)},
		{"rows without members", object("rows", "rows", "["+fill("{}", n)+"]")},
		{"arguments of a prompt that are no texts", call{method: "prompts/get", name: "x", params: `"name":"x","arguments":{` + manyNames(n/12) + "}"}},
		{"arguments of a completion that are no texts", call{method: "completion/complete", params: `"ref":{"type":"ref/prompt","name":"x"},` +
			`"argument":{"name":"a","value":""},"context":{"arguments":{` + manyNames(n/12) + "}}"}},
		{"members that a list does not have", call{method: "tools/list", params: manyNames(n / 12)}},
		{"nested arrays, many times", object("unique", "values", "["+fill(strings.Repeat("[", 50)+strings.Repeat("]", 50), n)+"]")},
	}
}

// distinct are different numbers.
func distinct(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// shapes are different nested arrays of 14 pairs of brackets. A hash that writes a sign for each
// array, and none for its end, does not tell them apart.
func shapes(n int) string {
	var b strings.Builder
	var grow func(shape []byte, open, left int)
	grow = func(shape []byte, open, left int) {
		if b.Len() >= n {
			return
		}
		if open == 0 && left == 0 {
			b.WriteString("[" + string(shape) + "],")
			return
		}
		if left > 0 {
			next := shape
			if len(shape) > 0 && shape[len(shape)-1] == ']' {
				next = append(next, ',')
			}
			grow(append(next, '['), open+1, left-1)
		}
		if open > 0 {
			grow(append(shape, ']'), open-1, left)
		}
	}
	grow(nil, 0, 14)
	return strings.TrimSuffix(b.String(), ",")
}

// No request of any size takes more CPU or memory than one may. CPU time depends on the machine, and
// on what else uses its caches, so that the short form compares it with an echo of as many bytes.
func TestOneRequestIsCheap(t *testing.T) {
	for _, attack := range costlies(maxFrame - 1000) {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t)
			undisturbed := s.others(t)
			c := s.caller(t, attacker, "")
			s.cheap(t, c, attack.what, bound.CPU, func() response { return c.modern(t, 1, attack.what) })
			undisturbed()
		})
	}
}

// What a client answers to a question is no way to more: what takes too much is asked for again.
func TestOneAnswerIsCheap(t *testing.T) {
	const size = maxFrame - 2000
	for _, attack := range []struct {
		name, tool, answer string
		fits               bool
	}{
		{"no roots", "roots", `{"roots":[` + fill("{}", size) + `]}`, false},
		{"objects about a root", "roots", `{"roots":[{"uri":"file:///a","_meta":{"any":[` + fill(`{"a":1}`, size) + `]}}]}`, false},
		{"many roots", "roots", `{"roots":[` + fill(`{"uri":"file:a"}`, size) + `]}`, true},
		{"numbers beside a root", "roots", `{"any":[1e999],"roots":[{"uri":"file:///a","_meta":{"any":[` + fill(`{"a":1}`, size) + `]}}]}`, false},
		{"no blocks", "sample", `{"role":"user","model":"m","content":[` + fill("{}", size) + `]}`, false},
		{"many blocks", "sample", `{"role":"user","model":"m","content":[` + fill(`{"type":"text","text":"x"}`, size) + `]}`, false},
		{"fewer blocks", "sample", `{"role":"user","model":"m","content":[` + fill(`{"type":"text","text":"`+strings.Repeat("x", 200)+`"}`, size) + `]}`, true},
		{"many members of a block", "sample", `{"role":"user","model":"m","content":[{"type":"text","text":"x","_meta":{` + manyNames(size/12) + `}}]}`, true},
		{"results in results", "sample", `{"role":"user","model":"m","content":` + strings.Repeat(`{"type":"tool_result","toolUseId":"1","content":[`, 25) +
			`{"type":"text","text":"` + strings.Repeat("x", size-3000) + `"}` + strings.Repeat("]}", 25) + `}`, false},
		{"objects about a block", "sample", `{"role":"user","model":"m","content":{"type":"text","text":"x","_meta":{"any":[` + fill(`{"a":1}`, size) + `]}}}`, false},
	} {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t)
			undisturbed := s.others(t)
			c := s.caller(t, attacker, "")
			state := c.asked(t, call{tool: attack.tool})
			answer := call{tool: attack.tool, extra: fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:%s}`, state, attack.tool, attack.answer)}
			r := s.cheap(t, c, answer, bound.CPU, func() response { return c.modern(t, 1, answer) })
			if r.Result == nil || attack.fits == (r.Result.ResultType == "input_required") {
				t.Errorf("%d %.300s", r.status, r.body)
			}
			undisturbed()
		})
	}
}

// A batch is one request over HTTP, and takes no more memory than one call of as many bytes.
func TestOneBatchIsCheap(t *testing.T) {
	const each = maxFrame/100 - 200 // bytes of arguments
	kept := call{tool: "hold", arguments: `{"ms":500,"anything":[` + fill(`{"a":1}`, each) + "]}"}
	for _, attack := range append(costlies(each), costly{"objects that handlers keep", kept}) {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t)
			undisturbed := s.others(t)
			c := s.caller(t, attacker, "")
			c.initializeOldest(t)
			var calls []string
			for id := range 100 {
				calls = append(calls, attack.what.frame(id, false))
			}
			batch := "[" + strings.Join(calls, ",") + "]"
			r := s.cheap(t, c, attack.what, bound.BatchCPU, func() response { return c.must(t, http.MethodPost, c.sessionHeader(), batch) })
			if n := strings.Count(r.body, `"jsonrpc"`); n != len(calls) {
				t.Errorf("%d answers: %d %.300s", n, r.status, r.body)
			}
			undisturbed()
		})
	}
}

// cheap sends one of what, or several in a batch, of about maxFrame bytes in all. That must take no more memory than one call may,
// and so much CPU time. It returns the answer.
func (s *target) cheap(t *testing.T, c *caller, what call, cpu time.Duration, send func() response) response {
	t.Helper()
	// The first calls fill pools and let the heap grow to the size of the largest message.
	large := call{tool: "echo", arguments: `{"text":"` + strings.Repeat("x", maxFrame-1000) + `"}`}
	echo := func() response { return c.modern(t, 1, large) }
	s.cost(t, large, echo)
	before := s.cpu(t)
	for range 6 {
		echo()
	}
	floor := max(s.cpu(t)-before, 10*time.Millisecond) / 6
	base := s.memory(t, "VmRSS")
	spent, peak, r := s.cost(t, what, send)
	if r.status/100 == 5 || len(r.body) > 2*maxFrame {
		t.Errorf("%d, %d bytes: %.300s", r.status, len(r.body), r.body)
	}
	grown := peak - base
	t.Logf("%v of CPU, an echo %v, %d MiB", spent, floor, grown>>20)
	if most := bound.LargeRatio * floor; !*long && spent > most || *long && spent > cpu {
		t.Errorf("one request takes %v of CPU; it may take %v here, and %v on a quiet machine", spent, most, cpu)
	}
	if grown > bound.Memory {
		t.Errorf("one request takes %d MiB, and may take %d", grown>>20, bound.Memory>>20)
	}
	return r
}

// cost sends a few times, and returns the least CPU time that this took, because other processes
// disturb, the least peak of the resident set, because they also delay the collector, and the last answer.
func (s *target) cost(t *testing.T, what call, send func() response) (least time.Duration, peak int64, r response) {
	t.Helper()
	least, peak = time.Hour, math.MaxInt64
	for range 3 {
		s.forgetPeak(t)
		before := s.cpu(t)
		r = send()
		s.awaitInFlight(t, cmp.Or(what.tool, "no tool"), 0)
		time.Sleep(20 * time.Millisecond) // what goes on after the answer counts, too
		peak = min(peak, s.memory(t, "VmHWM"))
		if least = min(least, s.cpu(t)-before); least > 20*bound.CPU {
			break
		}
	}
	return max(least, 10*time.Millisecond), peak, r
}

// Large requests that come together do not need their memory together.
func TestLargeRequestsTogetherAreCheap(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	all := costlies(maxFrame - 1000)
	base := s.memory(t, "VmRSS")
	s.forgetPeak(t)
	var waiting []*pending
	for i := range 16 {
		what := all[i%len(all)].what
		waiting = append(waiting, s.caller(t, attacker, "").begin(t, what.header(), what.frame(1, true)))
	}
	for _, p := range waiting {
		p.wait(t)
	}
	// Each frame is in memory twice at least, as it came and as the handler gets it.
	if grown := s.memory(t, "VmHWM") - base; grown > 400<<20 {
		t.Errorf("16 requests together take %d MiB", grown>>20)
	}
	undisturbed()
}

// A request of up to 64 KB takes at most 40 times the CPU of an echo of as many bytes.
func TestASmallRequestCostsWhatItsBytesCost(t *testing.T) {
	const enough = 40 * time.Millisecond // for a clock of 10 ms
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	// cost calls until the calls have cost enough, and returns what one of them has cost.
	cost := func(what call) time.Duration {
		before := s.cpu(t)
		for n := time.Duration(1); ; n++ {
			c.modern(t, 1, what)
			if spent := s.cpu(t) - before; spent >= enough {
				return spent / n
			}
		}
	}
	overhead := len(echo("").frame(1, true))
	echoes := map[string]time.Duration{} // by size, of which two digits count
	echoOf := func(bytes int) time.Duration {
		size := fmt.Sprintf("%.1e", float64(bytes))
		if echoes[size] == 0 {
			echoes[size] = cost(echo(strings.Repeat("x", bytes-overhead)))
		}
		return echoes[size]
	}
	cost(echo(strings.Repeat("x", bound.SmallBytes))) // warms up
	attacks := append(costlies(bound.SmallBytes), costly{"a URI of five bounded templates", fiveTemplates()})
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			bytes := len(attack.what.frame(1, true))
			floor, once := echoOf(bytes), cost(attack.what)
			t.Logf("%v, %.1f times an echo of %d bytes (%v)", once, float64(once)/float64(floor), bytes, floor)
			if once > bound.SmallRatio*floor {
				t.Errorf("a request takes %v of CPU, %.0f times an echo", once, float64(once)/float64(floor))
			}
		})
	}
	undisturbed()
}

// fiveTemplates reads a URI that comes near to five templates of five bounded variables.
func fiveTemplates() call {
	uri := "bounded://" + strings.Repeat("%41", 499) + "/x"
	return call{method: "resources/read", params: `"uri":` + quote(uri), name: uri}
}

// Idle connections keep little, whatever was sent over them before.
func TestIdleConnectionsKeepLittle(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	const n = 500
	base := s.memory(t, "VmRSS")
	deep := s.rawEcho(1)
	deep.body = call{tool: "echo", arguments: `{"text":` + strings.Repeat("[", 9900) + strings.Repeat("]", 9900) + "}"}.frame(1, true)
	raw := deep.String()
	var all sync.WaitGroup
	for range n {
		w := s.wire(t, attacker)
		all.Go(func() {
			_, _ = w.Write([]byte(raw))
			if r, err := w.response(); err != nil || r.Result != nil {
				t.Errorf("a deep body: %v %d %.100s", err, r.status, r.body)
			}
		})
	}
	all.Wait()
	if each := (s.memory(t, "VmRSS") - base) / n; each > 100<<10 {
		t.Errorf("an idle connection keeps %d KiB", each>>10)
	}
	undisturbed()
}
