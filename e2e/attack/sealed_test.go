package attack

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// keyFile writes a file of state keys: each of bytes with one more value than the one before.
func keyFile(t *testing.T, firsts ...byte) string {
	t.Helper()
	text := ""
	for _, first := range firsts {
		key := bytes.Repeat([]byte{first}, 32)
		for i := range key {
			key[i] += byte(i)
		}
		text += base64.StdEncoding.EncodeToString(key) + "\n"
	}
	return writeFile(t, "keys", text)
}

// A sealed session id of which one bit differs is unknown, whichever bit it is, and so is one that was cut,
// joined or made for something else. What is sealed for one purpose opens nothing for another one.
func TestChangedSealedIDsAreUnknown(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--state-keys-file", keyFile(t, 1))
	undisturbed := s.others(t)
	ann, bob := s.caller(t, attacker, "ann"), s.caller(t, attacker, "bob")
	ann.initialize(t)
	bob.initialize(t)
	state := ann.asked(t, pay(5))
	echo := call{tool: "echo", arguments: `{"text":"mine"}`}.frame(1, false)
	id := ann.session
	if strings.Trim(id, base64Letters) != "" || len(id) > 1024 {
		t.Fatalf("the id has other letters than those of base64, or is long: %s", id)
	}
	for i, changed := range flips(id) {
		if r := ann.must(t, http.MethodPost, withSession(changed), echo); r.status != http.StatusNotFound {
			t.Fatalf("letter %d of %d: %d %s", i/6, len(id), r.status, r.body)
		}
	}
	half := len(id) / 2
	for name, changed := range map[string]string{
		"half of it": id[:half], "without its end": id[:len(id)-4], "twice": id + id, "halves of two": id[:half] + bob.session[half:],
		"another version": "B" + id[1:], "a state": state, "a state in place of its end": id[:half] + state, "zeros": strings.Repeat("A", len(id)),
		"a longer one": id + strings.Repeat("A", 8<<10), "a key of the store": "session/{" + id + "}", "a pattern": "*", "of another principal": bob.session,
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			body := ""
			if method == http.MethodPost {
				body = echo
			}
			if r := ann.must(t, method, withSession(changed), body); r.status != http.StatusNotFound {
				t.Errorf("%s of an id, %s: %d %s", method, name, r.status, r.body)
			}
		}
	}
	if r := ann.modern(t, 1, pay(5).with(consent(id))); r.Result != nil || r.code() != codeInvalidParams {
		t.Errorf("a session id as a state: %d %s", r.status, r.body)
	}
	ann.paid(t, 0)
	for _, c := range []*caller{ann, bob} {
		if r := c.must(t, http.MethodPost, c.sessionHeader(), echo); r.text() != "mine" {
			t.Errorf("the session of %s afterwards: %d %s", c.name, r.status, r.body)
		}
	}
	undisturbed()
}

// A sealed id is served by any server with its key, for its principal, until it ends; by no other server.
func TestSealedIDsElsewhere(t *testing.T) {
	t.Parallel()
	first := attacked(t, "--state-keys-file", keyFile(t, 1))
	ann := first.caller(t, attacker, "ann")
	ann.initialize(t)
	echo := call{tool: "echo", arguments: `{"text":"mine"}`}.frame(1, false)
	named := serve(t, "vitrine", "serve", "--addr", "127.0.0.1:0", "--state-keys-file", keyFile(t, 1))
	nobody := first.caller(t, attacker, "")
	nobody.initialize(t)
	if r := named.caller(t, attacker, "").must(t, http.MethodPost, withSession(nobody.session), echo); r.status != http.StatusNotFound {
		t.Errorf("a server of another name with the same key: %d %s", r.status, r.body)
	}
	for name, use := range map[string]struct {
		keys []byte
		by   string
		want int
	}{
		"with other keys":                     {[]byte{40}, "ann", http.StatusNotFound},
		"with the same key, another caller":   {[]byte{1}, "bob", http.StatusNotFound},
		"with the same key, no caller":        {[]byte{1}, "", http.StatusNotFound},
		"with the same key after another one": {[]byte{40, 1}, "ann", http.StatusOK},
	} {
		other := attacked(t, "--state-keys-file", keyFile(t, use.keys...))
		undisturbed := other.others(t)
		r := other.caller(t, attacker, use.by).must(t, http.MethodPost, withSession(ann.session), echo)
		if r.status != use.want {
			t.Errorf("a server %s: %d %s", name, r.status, r.body)
		}
		undisturbed()
	}
	ann = attacked(t, "--state-keys-file", keyFile(t, 1), "--session-life", "2s").caller(t, attacker, "ann")
	ann.initialize(t)
	eventually(t, func() error {
		if r := ann.must(t, http.MethodPost, ann.sessionHeader(), echo); r.status != http.StatusNotFound {
			return fmt.Errorf("the id does not end: %d", r.status)
		}
		return nil
	})
}
