package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A request's state (specification: "Multi Round-Trip Requests", requestState) goes
// through the hands of the client, and comes back whenever, to whichever replica, and
// from whomever. So it is sealed: nobody but the holders of the key can read, make or
// change one, and what is in it says for which request it was made.

// WithStateKeys sets the keys that seal the state of multi round-trip requests. Keys
// are random and have 32 bytes or more. The first seals; all of them unseal, so that a
// key is rotated by putting a new one first and taking the old one away when
// state_ttl has passed. Replicas that serve the same clients need the same keys;
// without the option the key is random, and a request can be continued only by the
// process that has begun it. A key should seal at most 2^32 states.
func WithStateKeys(keys ...[]byte) Option {
	return optionFunc(func(c *config) { c.stateKeys = keys })
}

// SetStateKeys is [WithStateKeys] for a server that is made already. It must be called
// before the server serves anybody, as package service does with the keys that an
// operator has set. It returns an error for a key that is too short, and for none.
func (s *Server) SetStateKeys(keys ...[]byte) error {
	if len(keys) == 0 {
		return errors.New("server: no state keys")
	}
	ring, err := newKeyRing(s.info.Name, keys)
	if err == nil {
		s.stateKeys = ring
	}
	return err
}

// A keyRing seals with its first key and unseals with all.
type keyRing []stateKey

type stateKey struct {
	id   [keyIDLen]byte
	aead cipher.AEAD
}

const (
	minStateKey = 32
	keyIDLen    = 8
	// stateVersion is the first byte of a sealed state: the form of all that follows.
	stateVersion = 1
	// headLen is what stands before the nonce, in the clear: version and key id.
	headLen = 1 + keyIDLen
)

// newKeyRing derives the keys of a server. Its name is part of them, so that one
// secret may serve several servers and none takes another's state for its own.
func newKeyRing(name string, secrets [][]byte) (keyRing, error) {
	if len(secrets) == 0 {
		secrets = [][]byte{make([]byte, minStateKey)}
		rand.Read(secrets[0]) // never fails
	}
	var ring keyRing
	for i, secret := range secrets {
		if len(secret) < minStateKey {
			return nil, fmt.Errorf("server: state key %d has %d bytes and needs %d", i+1, len(secret), minStateKey)
		}
		derived, err := hkdf.Key(sha256.New, secret, nil, "vitrine requestState 1 "+name, 32+keyIDLen)
		if err != nil {
			return nil, fmt.Errorf("server: state key %d: %w", i+1, err)
		}
		block, err := aes.NewCipher(derived[:32])
		if err != nil {
			return nil, fmt.Errorf("server: state key %d: %w", i+1, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("server: state key %d: %w", i+1, err)
		}
		ring = append(ring, stateKey{id: [keyIDLen]byte(derived[32:]), aead: aead})
	}
	return ring, nil
}

// stateText is how a state is written: safe in JSON, URLs and headers.
var stateText = base64.RawURLEncoding.Strict()

func (r keyRing) seal(plain []byte) string {
	key := &r[0]
	sealed := make([]byte, 0, headLen+len(plain)+key.aead.Overhead())
	sealed = append(append(sealed, stateVersion), key.id[:]...)
	return stateText.EncodeToString(key.aead.Seal(sealed, nil, plain, sealed))
}

// sealedLen is the length of what seal returns for n bytes.
func (r keyRing) sealedLen(n int) int {
	return stateText.EncodedLen(headLen + n + r[0].aead.Overhead())
}

func (r keyRing) unseal(text string) ([]byte, mcp.StateFault) {
	sealed, err := stateText.DecodeString(text)
	// Package base64 skips line breaks, and then one state could be written in many ways.
	if err != nil || strings.ContainsAny(text, "\r\n") || len(sealed) < headLen || sealed[0] != stateVersion {
		return nil, mcp.StateMalformed
	}
	head, body := sealed[:headLen], sealed[headLen:]
	for i := range r {
		if r[i].id != [keyIDLen]byte(head[1:]) {
			continue
		}
		if plain, err := r[i].aead.Open(nil, nil, body, head); err == nil {
			return plain, ""
		}
		return nil, mcp.StateChanged
	}
	return nil, mcp.StateForeign
}

// A requestState is what travels from one round to the next.
type requestState struct {
	Binding binding `json:"for"`
	// Expires is in seconds since 1970.
	Expires int64 `json:"exp"`
	// Round counts the rounds of questions so far.
	Round   int               `json:"round"`
	Answers map[string]answer `json:"answers,omitempty"`
	// Asked are the questions of the last round.
	Asked map[string]digest `json:"asked,omitempty"`
	Kept  jsontext.Value    `json:"kept,omitzero"`
	// TraceParent names the span of the last round, which that of the next one links.
	TraceParent string `json:"traceparent,omitempty"`
}

// A binding says for which request, and for whom, a state was made. The parts are
// hashed on their own, so that an error can name the one that differs.
type binding struct {
	Target    digest `json:"target"` // with the method
	Arguments digest `json:"arguments"`
	Principal digest `json:"principal"`
}

func bindingOf(in *session.Inbound, principal string) (binding, error) {
	arguments, err := canonical(in.Arguments)
	return binding{
		Target:    digestOf(in.Method, in.Name),
		Arguments: digestOf(string(arguments)),
		Principal: digestOf(principal),
	}, err
}

// canonical returns the arguments of a request in a form that does not depend on
// white space, escapes and the order of members. Numbers stay as they are written:
// rounded to a float64, as RFC 8785 has it, two different ones could look the same.
func canonical(arguments jsontext.Value) (jsontext.Value, error) {
	if arguments == nil {
		return jsontext.Value("{}"), nil
	}
	c := arguments.Clone()
	return c, c.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
}

// sealState seals a state, or says that it is too large.
func (s *Server) sealState(st requestState) (string, error) {
	st.Expires = time.Now().Add(s.core.Limits().StateTTL).Unix()
	plain, err := wire.Marshal(nil, st)
	if err != nil {
		return "", fmt.Errorf("encode the request state: %w", err)
	}
	answers := stateText.EncodedLen(answersSize(st.Answers))
	if err := s.checkStateSize(s.stateKeys.sealedLen(len(plain)), answers); err != nil {
		return "", err
	}
	return s.stateKeys.seal(plain), nil
}

func answersSize(answers map[string]answer) (size int) {
	for _, a := range answers {
		size += len(a.Value)
	}
	return size
}

// checkStateSize is an error if a request has collected more than it may: the client's,
// if there were room without its answers.
func (s *Server) checkStateSize(size, answers int) error {
	limit := s.core.Limits().MaxStateBytes
	if size <= limit {
		return nil
	}
	s.core.LimitReached(session.LimitStateBytes)
	code := mcp.CodeInternalError
	if size-answers <= limit {
		code = mcp.CodeInvalidParams
	}
	return mcp.NewError(code, "the request has collected more state than %s allows", session.LimitStateBytes).
		WithData(mcp.ErrorData{Limit: session.LimitStateBytes})
}

// unsealState returns what a client has brought back, if it was made for this request.
func (s *Server) unsealState(text string, want binding) (*requestState, *mcp.Error) {
	if len(text) > s.core.Limits().MaxStateBytes {
		s.core.LimitReached(session.LimitStateBytes)
		return nil, stateError(mcp.StateTooLarge, session.LimitStateBytes)
	}
	plain, fault := s.stateKeys.unseal(text)
	if fault != "" {
		return nil, stateError(fault, "")
	}
	st := new(requestState)
	if json.Unmarshal(plain, st) != nil { // of another version of this program
		return nil, stateError(mcp.StateMalformed, "")
	}
	if fault := st.fault(want, time.Now()); fault != "" {
		return nil, stateError(fault, "")
	}
	return st, nil
}

// fault returns what speaks against a state that is authentic.
func (st *requestState) fault(want binding, now time.Time) mcp.StateFault {
	same := func(a, b digest) bool { return string(a) == string(b) }
	switch {
	case !same(st.Binding.Principal, want.Principal):
		return mcp.StatePrincipal
	case !same(st.Binding.Target, want.Target):
		return mcp.StateTarget
	case !same(st.Binding.Arguments, want.Arguments):
		return mcp.StateArguments
	case now.Unix() >= st.Expires:
		return mcp.StateExpired
	}
	return ""
}

// stateError is the answer to a state that is not accepted.
func stateError(fault mcp.StateFault, limit string) *mcp.Error {
	text := map[mcp.StateFault]string{
		mcp.StateMalformed: "is none that this server has issued",
		mcp.StateTooLarge:  "is longer than " + limit + " allows",
		mcp.StateForeign:   "was sealed with a key that this server does not have",
		mcp.StateChanged:   "was changed",
		mcp.StateExpired:   "has expired: begin again without it",
		mcp.StatePrincipal: "was issued to somebody else",
		mcp.StateTarget:    "was issued for another request",
		mcp.StateArguments: "was issued for other arguments",
	}[fault]
	return mcp.NewError(mcp.CodeInvalidParams, "params.requestState %s", text).
		WithData(mcp.ErrorData{Reason: string(fault), Limit: limit})
}
