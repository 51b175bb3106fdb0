package attack

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// storedKey is a key of the store as the server makes them: of a session with its inner id, of its events, of a
// task, and of the lease of a replica. Each id is random text of the server.
var storedKey = regexp.MustCompile(`^vitrine:((session|events|task)/\{[A-Z2-7]{26}\}|replica/\{[a-z2-7]+\})$`)

// stored starts servers with one Redis server as their store.
func stored(t *testing.T, n int, args ...string) (all []*target, redis *redistest.Shell) {
	t.Helper()
	store := redistest.Start(t, "e2e/attack/redis")
	for range n {
		all = append(all, replicaOf(t, store.Addr()+"/0", args...))
	}
	return all, redistest.Dial(t, store.Addr())
}

// replicaOf starts a server with a store, which is a URL without its scheme. All of them have the same state keys.
func replicaOf(t *testing.T, store string, args ...string) *target {
	t.Helper()
	return attacked(t, append([]string{"--state-keys-file", keyFile(t, 1), "--store", "redis://" + store}, args...)...)
}

// odd are texts that would be other keys, fields, patterns or commands if the server did not choose all of
// these itself.
var odd = []string{
	"}x{", "a}{b", "../session/{x}", "vitrine:session/{x}", "session/{" + strings.Repeat("A", 26) + "}", "*", "?[a-z]", "\r\nFLUSHALL\r\n",
	"*1\r\n$8\r\nFLUSHALL\r\n", "x\x00y", "' redis.call('FLUSHALL') '", "t", "h", "b", "q0", strings.Repeat("k", 4000),
}

// Whatever a client says, it chooses no key of the store: neither by the names of client, tool and resource nor
// by ids of sessions, requests, tasks and events. What others have there stays, and each key has an end.
func TestClientsChooseNoKeysOfTheStore(t *testing.T) {
	t.Parallel()
	all, redis := stored(t, 2)
	s := all[0]
	undisturbed := s.others(t)
	ann := s.caller(t, bystanders, "ann")
	ann.initialize(t)
	ann.legacy(t, 2, call{method: "logging/setLevel", params: `"level":"debug"`})
	task := ann.detached(t, job(600_000, 1))
	before := strings.Join(redis.Do("GET vitrine:task/{"+task+"}"), "")

	bob := s.caller(t, attacker, "bob")
	for _, text := range odd {
		q := quote(text)
		r := bob.must(t, http.MethodPost, plainHeader(), `{"jsonrpc":"2.0","id":`+q+`,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{"extensions":{`+q+`:{}}},"clientInfo":{"name":`+q+`,"version":`+q+`}}}`)
		if bob.session = r.header.Get("Mcp-Session-Id"); bob.session == "" {
			t.Fatalf("initialize as %q: %d %s", text, r.status, r.body)
		}
		for _, what := range []call{
			{method: "logging/setLevel", params: `"level":"info"`}, {method: "resources/subscribe", params: `"uri":` + q},
			{method: "resources/unsubscribe", params: `"uri":` + q}, {method: "tools/call", params: `"name":` + q + `,"_meta":{"progressToken":` + q + `}`},
		} {
			bob.legacy(t, text, what)
		}
		bob.notify(t, `"notifications/cancelled","params":{"requestId":`+q+`,"reason":`+q+`}`)
		bob.must(t, http.MethodPost, bob.sessionHeader(), `{"jsonrpc":"2.0","id":`+q+`,"result":{}}`)
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			if r := bob.modern(t, text, about(method, text, `"inputResponses":{`+q+`:{}}`)); r.Result != nil {
				t.Errorf("%s of %q: %s", method, text, r.body)
			}
		}
		if strings.ContainsAny(text, "\r\n\x00") {
			continue // no header has these
		}
		h := bob.sessionHeader()
		h.Set("Last-Event-ID", text)
		if r := bob.must(t, http.MethodGet, h, ""); r.status == http.StatusOK {
			t.Errorf("events after %q: %s", text, r.body)
		}
		if r := bob.must(t, http.MethodPost, withSession(text), call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)); r.status != http.StatusNotFound {
			t.Errorf("the session %q: %d %s", text, r.status, r.body)
		}
	}
	for _, key := range redis.Do("KEYS *") {
		if !storedKey.MatchString(key) {
			t.Errorf("the store has the key %q", key)
			continue
		}
		if redis.Number("PTTL "+key) <= 0 {
			t.Errorf("the key %s has no end", key)
		}
	}
	if after := strings.Join(redis.Do("GET vitrine:task/{"+task+"}"), ""); after == "" || after != before {
		t.Errorf("the task of another has changed from\n%s\nto\n%s", before, after)
	}
	if r := ann.modern(t, 1, about("tasks/cancel", task, "")); r.Result == nil {
		t.Errorf("the task of ann: %d %s", r.status, r.body)
	}
	undisturbed()
}

// A flood of initialize and DELETE leaves a bounded number of tombstones, and none of it brings a session of
// another caller back: that has ended at each replica, also at one that has never seen it.
func TestTombstoneFloods(t *testing.T) {
	t.Parallel()
	const remembered, flood = 40, 400
	all, redis := stored(t, 2, "--max-deleted-sessions", fmt.Sprint(remembered))
	undisturbed := all[0].others(t)
	ann := all[0].caller(t, bystanders, "ann")
	ann.initialize(t)
	ended := ann.session
	ann.must(t, http.MethodDelete, ann.sessionHeader(), "")
	bob := all[0].caller(t, attacker, "bob")
	for range flood {
		bob.initialize(t)
		if r := bob.must(t, http.MethodDelete, bob.sessionHeader(), ""); r.status != http.StatusNoContent {
			t.Fatalf("DELETE: %d %s", r.status, r.body)
		}
	}
	if n := len(redis.Do("KEYS vitrine:session/*")); n > remembered {
		t.Errorf("%d deletions have left %d keys in the store, and %d sessions are remembered", flood, n, remembered)
	}
	echo := call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)
	for i, s := range all {
		for _, c := range []struct {
			name, session string
		}{{"ann", ended}, {"bob", bob.session}} {
			if r := s.caller(t, attacker, c.name).must(t, http.MethodPost, withSession(c.session), echo); r.status != http.StatusNotFound {
				t.Errorf("the session of %s, which has ended, at replica %d: %d %s", c.name, i, r.status, r.body)
			}
		}
	}
	undisturbed()
}

// Sealed ids that nobody has sealed ask the store nothing, however many there are, and leave nothing in it.
func TestMadeUpSealedIDsAskNoStore(t *testing.T) {
	t.Parallel()
	all, redis := stored(t, 1)
	s := all[0]
	undisturbed := s.others(t)
	bob := s.caller(t, attacker, "bob")
	bob.initialize(t)
	id := bob.session
	asked := func() float64 { return s.metrics(t).sum("vitrine_store_operations_total") }
	before := asked()
	echo := call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)
	for i := range 500 {
		made := id[:20] + fmt.Sprintf("%06d", i) + id[26:]
		if r := bob.must(t, http.MethodPost, withSession(made), echo); r.status != http.StatusNotFound {
			t.Fatalf("a made-up id: %d %s", r.status, r.body)
		}
	}
	if n := asked() - before; n != 0 {
		t.Errorf("made-up ids have asked the store %v times", n)
	}
	if keys := redis.Do("KEYS vitrine:session/*"); len(keys) > 0 {
		t.Errorf("the store has %v", keys)
	}
	undisturbed()
}
