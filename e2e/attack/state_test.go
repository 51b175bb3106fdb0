package attack

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const accepted = `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`

func pay(amount int) call { return call{tool: "pay", arguments: fmt.Sprintf(`{"amount":%d}`, amount)} }

// with adds members to the params of a call.
func (c call) with(members string) call {
	c.extra = members
	return c
}

// consent has the members of params with which a client gives the state back and accepts.
func consent(state string) string { return fmt.Sprintf(`"requestState":%q,%s`, state, accepted) }

// asked calls a tool and returns the sealed state of its question.
func (c *caller) asked(t *testing.T, what call) string {
	t.Helper()
	r := c.modern(t, 1, what)
	if r.Result == nil || r.Result.ResultType != "input_required" || r.Result.RequestState == "" {
		t.Fatalf("%s does not ask: %d %s", what.tool, r.status, r.body)
	}
	return r.Result.RequestState
}

// paid checks how often the server has paid.
func (c *caller) paid(t *testing.T, want int) {
	t.Helper()
	if r := c.modern(t, 1, call{tool: "paid"}); r.text() != fmt.Sprint(want) {
		t.Errorf("the server has paid %s times, want %d", r.text(), want)
	}
}

// base64Letters are the letters of a sealed state, by value.
const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// flips returns a state with each of its bits turned over. The last letter has bits that say nothing.
func flips(state string) (all []string) {
	for i := range state {
		value := strings.IndexByte(base64Letters, state[i])
		for bit := 1; bit < len(base64Letters); bit <<= 1 {
			all = append(all, state[:i]+string(base64Letters[value^bit])+state[i+1:])
		}
	}
	return all
}

// A sealed state of which one bit differs is refused, whichever bit it is.
func TestChangedStatesAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	state := ann.asked(t, pay(5))
	if strings.Trim(state, base64Letters) != "" {
		t.Fatalf("the state has other letters than those of base64: %s", state)
	}
	for i, changed := range flips(state) {
		if r := ann.modern(t, 1, pay(5).with(consent(changed))); r.code() != codeInvalidParams || r.Result != nil {
			t.Fatalf("letter %d of %d: %d %s", i/6, len(state), r.status, r.body)
		}
	}
	for name, changed := range map[string]string{
		"half of it": state[:len(state)/2], "twice": state + state, "one letter": "A", "with a line feed": state + "\n", "with padding": state + "=",
		"not base64": "!" + state[1:], "reversed": reversed(state), "a megabyte": strings.Repeat("A", 1<<20), "zeros": strings.Repeat("A", len(state)),
	} {
		if r := ann.modern(t, 1, pay(5).with(consent(changed))); r.Result != nil {
			t.Errorf("a state %s: %d %s", name, r.status, r.body)
		}
	}
	ann.paid(t, 0)
	if r := ann.modern(t, 1, pay(5).with(consent(state))); r.text() != "paid" {
		t.Errorf("the state as it was: %d %s", r.status, r.body)
	}
	ann.paid(t, 1)
	undisturbed()
}

func reversed(text string) string {
	b := []byte(text)
	for i := range len(b) / 2 {
		b[i], b[len(b)-1-i] = b[len(b)-1-i], b[i]
	}
	return string(b)
}

// A sealed state belongs to one principal, one tool, its arguments, one key and a time.
func TestReplayedStatesAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--state-ttl", "2s")
	elsewhere := attacked(t) // with a key of its own
	undisturbed := s.others(t)
	ann, bob, nobody := s.caller(t, attacker, "ann"), s.caller(t, attacker, "bob"), s.caller(t, attacker, "")
	began := time.Now()
	state := ann.asked(t, pay(5))
	again := call{tool: "pay_again", arguments: `{"amount":5}`}
	for name, replay := range map[string]struct {
		by   *caller
		what call
	}{
		"by another principal":    {bob, pay(5)},
		"by nobody":               {nobody, pay(5)},
		"for another amount":      {ann, pay(500)},
		"for a number like it":    {ann, call{tool: "pay", arguments: `{"amount":5.0}`}},
		"for more arguments":      {ann, call{tool: "pay", arguments: `{"amount":5,"more":1}`}},
		"for another tool":        {ann, again},
		"for another tool by bob": {bob, again},
		"at another server":       {elsewhere.caller(t, attacker, "ann"), pay(5)},
	} {
		if r := replay.by.modern(t, 1, replay.what.with(consent(state))); r.text() == "paid" || r.Result != nil && !r.Result.IsError || r.Result == nil && r.code() != codeInvalidParams {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	eventually(t, func() error { // whatever the clock of a busy machine does, in the end the state is too old
		if time.Since(began) < 2*time.Second {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	eventually(t, func() error {
		if r := ann.modern(t, 1, pay(5).with(consent(state))); r.Result != nil || r.Error == nil || r.Error.Data.Reason != "state_expired" {
			return fmt.Errorf("an expired state: %d %s", r.status, r.body)
		}
		return nil
	})
	ann.paid(t, 0)
	undisturbed()
}

// A server does not start with a key that can be guessed.
func TestKeysThatCanBeGuessedAreRefused(t *testing.T) {
	t.Parallel()
	for name, key := range map[string][]byte{"zeros": make([]byte, 32), "one letter": bytes.Repeat([]byte("x"), 32), "a short one": []byte("short")} {
		file := t.TempDir() + "/keys"
		if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newTarget("victim", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--state-keys-file", file)
		s.start(t)
		select {
		case <-s.ended:
			if s.state.Success() {
				t.Errorf("%s: it ended without an error", name)
			}
		case <-time.After(patience):
			t.Errorf("%s: it serves", name)
		}
	}
}
