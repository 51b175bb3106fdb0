package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stateKeys returns the text of a file with keys.
func stateKeys(first ...byte) (text string) {
	for _, b := range first {
		text += base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{b}, 31), ^b)) + "\n"
	}
	return text
}

// The file of the state keys changes while a client is in its session: the three steps of a rotation, and a
// mistake between them.
func TestStateKeysChangeUnderASession(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(stateKeys(1))
	s := serveHTTP(t, withArgs("--state-keys-file", path))
	session := s.initialize(t)
	answers := func(of *legacySession, want int) {
		t.Helper()
		a := s.send(t, http.MethodPost, of.headers(), call(2, "where", object{}).inLegacy().frame())
		if a.status != want {
			t.Fatalf("%d %s, want %d", a.status, a.body, want)
		}
	}
	reloads := func(result string, want float64) {
		t.Helper()
		eventually(t, func() error {
			if n := s.metrics(t).sum("vitrine_state_keys_reloads_total", "result", result); n != want {
				return fmt.Errorf("%v contents were %s, want %v", n, result, want)
			}
			return nil
		})
	}
	answers(session, 200)
	write(stateKeys(1, 2))
	reloads("loaded", 1)
	answers(session, 200)

	write(strings.Repeat("no key ", 9))
	reloads("failed", 1)
	if n := s.metrics(t).sum("vitrine_state_keys_stale_files"); n != 1 {
		t.Errorf("%v files of keys are stale, want 1", n)
	}
	answers(session, 200)

	write(stateKeys(2, 1))
	reloads("loaded", 2)
	answers(session, 200)
	later := s.initialize(t)

	write(stateKeys(2))
	reloads("loaded", 3)
	answers(later, 200)
	answers(session, 404)
	other := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(other, []byte(stateKeys(2)), 0o600); err != nil {
		t.Fatal(err)
	}
	second := serveHTTP(t, withArgs("--state-keys-file", other))
	if a := second.send(t, http.MethodPost, later.headers(), call(2, "where", object{}).inLegacy().frame()); a.status != 200 {
		t.Errorf("at another process with the new key: %d %s", a.status, a.body)
	}
}
