package e2e

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// mean returns how many bytes the values under the keys of a pattern take, with their keys, and how many there
// are.
func mean(redis *redistest.Shell, pattern string) (bytes, n int) {
	keys := redis.Do("KEYS vitrine:" + pattern)
	for _, key := range keys {
		bytes += redis.Number("MEMORY USAGE " + key + " SAMPLES 0")
	}
	return bytes / max(len(keys), 1), len(keys)
}

// eventsOf returns how many events each of so many sessions has, in the mean.
func eventsOf(redis *redistest.Shell, sessions int) (n int) {
	for _, key := range redis.Do("KEYS vitrine:events/*") {
		n += redis.Number("HGET " + key + " t")
	}
	return n / sessions
}

// many is how many of each are measured.
const many = 20

// sizes measures what a server stores for clients.
func sizes(t *testing.T, s *server, redis *redistest.Shell) map[string]int {
	t.Helper()
	measured := map[string]int{}
	note := func(name, pattern string, want int) {
		t.Helper()
		size, n := mean(redis, pattern)
		if n != want {
			t.Fatalf("%s: %d keys %s, want %d", name, n, pattern, want)
		}
		measured[name] = size
		redis.Do("EVAL \"for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end return 0\" 0 vitrine:" + pattern)
	}
	sessions := make([]*legacySession, many)
	for i := range sessions {
		sessions[i] = s.initialize(t)
		sessions[i].ask(t, call(2, "echo", object{"text": "x"}))
	}
	if keys := redis.Do("KEYS vitrine:session/*"); len(keys) > 0 {
		t.Errorf("sessions that have changed nothing are in the store: %v", keys)
	}
	for _, session := range sessions {
		if a := session.ask(t, request{id: 3, method: "logging/setLevel", params: object{"level": "debug"}}); a.status != http.StatusOK {
			t.Fatalf("logging/setLevel: %d %s", a.status, a.body)
		}
	}
	note("a session that has set its log level", "session/*", many)
	events := func(steps int) {
		for _, session := range sessions {
			c := session.starts(t, 4, steps, 1)
			for m := c.read(t); string(m.ID) != "4"; { // reports that come fast are one
				m = c.read(t)
			}
		}
	}
	events(1)
	note("a stream of three small events", "events/*", many)
	for _, session := range sessions { // streams of other sessions, so that each key has one
		session.send(t, http.MethodDelete, session.headers(), "")
	}
	note("the tombstone of a session", "session/*", many)
	for i := range sessions {
		sessions[i] = s.initialize(t)
	}
	events(50)
	size, _ := mean(redis, "events/*")
	measured["a further small event"] = (size - measured["a stream of three small events"]) / (eventsOf(redis, many) - 3)
	for _, session := range sessions {
		session.listens(t)
	}
	note("a session that reads its own stream", "session/*", many)
	for range many {
		s.startTask(t, 0.01)
	}
	eventually(t, func() error {
		if n := s.metrics(t).sum("vitrine_tasks", "status", "completed"); n != many {
			return fmt.Errorf("%v tasks are completed, want %d", n, many)
		}
		return nil
	})
	note("a task with a small result", "task/*", many)
	for range many {
		if a := s.post(t, confirmed(t, s.post(t, unconfirmed))); a.Result == nil {
			t.Fatalf("the answer to a question: %s", a.body)
		}
	}
	note("a state that was used and may be used once", "state/*", many)
	for range 3 {
		if a := s.post(t, request{id: 5, method: "prompts/list"}); a.Result == nil {
			t.Fatalf("prompts/list: %s", a.body)
		}
	}
	note("a caller's bucket of a rate limit", "buckets/*", many)
	return measured
}

// buckets returns rate limits. Each has a bucket for a caller that lists prompts, and is so small that the caller waits
// for the store.
func buckets() string {
	var limits strings.Builder
	for i := range many {
		fmt.Fprintf(&limits, "limit%d 1000/100h burst 19 per address methods prompts/list;", i)
	}
	return limits.String()
}

// sizeRow is a row of the table of sizes: what it is, and its bytes.
var sizeRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+) \|`)

// The sizes that docs/replicas.md tells are those of a real Redis server, to within a factor of one and a half:
// its releases and allocators differ.
func TestSizesInTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "e2e/redis")
	s := serveHTTP(t, sealed, withArgs("--single-use-states", "--rate-limits", buckets()), withEnv("VITRINE_STORE=redis://"+redis.Addr()+"/0"))
	measured := sizes(t, s, redistest.Dial(t, redis.Addr()))
	page, err := os.ReadFile("../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Sizing\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string]int{}
	for _, row := range sizeRow.FindAllStringSubmatch(section, -1) {
		told[row[1]], _ = strconv.Atoi(row[2])
	}
	for name, got := range measured {
		t.Logf("| %s | %d |", name, got)
		if want := told[name]; 2*got > 3*want || 3*got < 2*want {
			t.Errorf("%s: %d bytes, and the page tells %d", name, got, want)
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("the page tells the size of %q, which nobody has measured", name)
	}
}
