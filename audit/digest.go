package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

const digestSize = sha256.Size

// MinKeyBytes is the length of the shortest key.
const MinKeyBytes = 32

// checkKey returns an error for a key that is too short.
func checkKey(key []byte) error {
	if len(key) < MinKeyBytes {
		return fmt.Errorf("audit: the key has %d bytes, and must have at least %d random ones", len(key), MinKeyBytes)
	}
	return nil
}

// derive returns the key for one purpose, so that a digest of arguments is never a link of the chain.
func derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("vitrine audit: " + purpose))
	return mac.Sum(nil)
}

// A digester makes keyed digests of arguments. It is safe for concurrent use.
type digester struct{ pool sync.Pool }

// A keyed is an HMAC, and the memory for its result.
type keyed struct {
	hash.Hash
	sum [digestSize]byte
}

func newDigester(key []byte) *digester {
	key = derive(key, "arguments")
	return &digester{sync.Pool{New: func() any { return &keyed{Hash: hmac.New(sha256.New, key)} }}}
}

// digest returns the digest of some bytes.
func (d *digester) digest(data []byte) [digestSize]byte {
	h := d.pool.Get().(*keyed)
	defer d.pool.Put(h)
	h.Reset()
	h.Write(data)
	h.Sum(h.sum[:0])
	return h.sum
}

// Digest returns what a record has as arguments_digest if its log has this key: the HMAC-SHA256 of
// the arguments, in hexadecimal. arguments are the bytes of the JSON as the caller has sent it: other
// space or another order of the members gives another digest.
func Digest(key, arguments []byte) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	sum := newDigester(key).digest(arguments)
	return hex.EncodeToString(sum[:]), nil
}

// A Redactor returns what a record keeps of the arguments of an operation, as JSON, or nil to keep
// nothing. It must not change the record or the arguments, and must be safe for concurrent use. It
// runs in the call, before its record is queued. If it panics, or returns what is no JSON or is too
// large, the record says so and keeps the digest only.
type Redactor func(r *Record, arguments []byte) []byte

// Reasons for which a record has no arguments although there is a redactor.
const (
	withheldPanic   = "redactor_panic"
	withheldInvalid = "invalid_json"
	withheldSize    = "too_large"
)

// seal replaces the arguments of a record by their digest and by what the redactor gives.
func (l *Log) seal(r *Record) {
	arguments := r.Arguments
	r.Arguments = nil
	if len(arguments) == 0 {
		return
	}
	r.digest, r.digested = l.digester.digest(arguments), true
	if l.config.Redact == nil {
		return
	}
	kept, fine := l.redact(*r, arguments) // a copy, so that a record stays off the heap without a redactor
	switch {
	case !fine:
		r.withheld = withheldPanic
	case kept == nil:
	case len(kept) > l.config.MaxArgumentBytes:
		r.withheld = withheldSize
	default:
		value := jsontext.Value(bytes.Clone(kept)) // the redactor may return a part of the frame
		if value.Compact() != nil {
			r.withheld = withheldInvalid
			return
		}
		r.redacted = value
	}
}

// redact calls the redactor and contains its panic.
func (l *Log) redact(r Record, arguments []byte) (kept []byte, fine bool) {
	defer func() {
		if v := recover(); v != nil {
			l.logger.Error("audit.redactor_panic", "operation", r.Operation, "panic", v)
		}
	}()
	return l.config.Redact(&r, arguments), true
}
