package adapt

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A sessionSeal binds the ids of sessions to principals. A client gets the id of the SDK with a seal,
// which only the same principal can use.
type sessionSeal struct{ key []byte }

// The seal of an id is the digest of its principal, followed by a code of the id and this digest.
const (
	minKey    = 32
	ownerSize = 12
	sealSize  = ownerSize + 16
)

func newSessionSeal() sessionSeal {
	key := make([]byte, minKey)
	_, _ = rand.Read(key) // never fails
	return sessionSeal{key}
}

// SealSessions sets the key of the seals. Without it there is a random key, so that another process
// does not know the sessions of this one.
func (a *Adapter) SealSessions(key []byte) error {
	if len(key) < minKey {
		return errors.New("the key for the ids of sessions must have at least 32 random bytes")
	}
	a.guard.sessions = sessionSeal{key}
	return nil
}

// code returns the keyed digest of some texts.
func (s sessionSeal) code(purpose string, texts ...string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte("vitrine session: " + purpose))
	for _, text := range texts {
		mac.Write([]byte{0})
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}

// seal returns the id for a client with a principal, which may be nil.
func (s sessionSeal) seal(id string, p *auth.Principal) string {
	owner := s.code("owner", p.Key())[:ownerSize]
	seal := append(owner, s.code("id", id, string(owner))[:sealSize-ownerSize]...)
	return id + "." + base64.RawURLEncoding.EncodeToString(seal)
}

// open returns the id of the SDK for the one that a client sends. genuine says that the seal is one of
// ours, and own that it is that of the caller.
func (s sessionSeal) open(sealed string, p *auth.Principal) (id string, genuine, own bool) {
	end := strings.LastIndexByte(sealed, '.')
	if end < 0 {
		return "", false, false
	}
	id = sealed[:end]
	seal, err := base64.RawURLEncoding.Strict().DecodeString(sealed[end+1:])
	if err != nil || len(seal) != sealSize {
		return "", false, false
	}
	owner, code := seal[:ownerSize], seal[ownerSize:]
	if !hmac.Equal(code, s.code("id", id, string(owner))[:len(code)]) {
		return "", false, false
	}
	return id, true, hmac.Equal(owner, s.code("owner", p.Key())[:ownerSize])
}

// A sealingWriter seals the id of a new session on its way to the client.
type sealingWriter struct {
	http.ResponseWriter
	seal   func(id string) string
	sealed bool
}

func (w *sealingWriter) sealHeader() {
	if w.sealed {
		return
	}
	w.sealed = true
	if id := w.Header().Get(headerSessionID); id != "" {
		w.Header().Set(headerSessionID, w.seal(id))
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *sealingWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.sealHeader()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *sealingWriter) Write(p []byte) (int, error) {
	w.sealHeader()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (w *sealingWriter) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *sealingWriter) FlushError() error {
	w.sealHeader()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *sealingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
