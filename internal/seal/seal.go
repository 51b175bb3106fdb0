// Package seal encrypts and authenticates what clients carry for the server: the state of a request
// between two rounds, and the ids of legacy sessions. All replicas with the same keys can open what one
// of them has sealed; nobody else can read or make it.
package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Ring seals with its first key and opens with any of its keys. It is immutable and safe for
// concurrent use.
type Ring []key

type key struct {
	id   [keyIDLen]byte
	aead cipher.AEAD
}

const (
	// MinKeyBytes is the least length of a secret, in bytes.
	MinKeyBytes = 32
	keyIDLen    = 8
	// format is the first byte of what is sealed. It names the format.
	format = 2
	// headLen is the length of what precedes the nonce and is not encrypted: format and key id.
	headLen = 1 + keyIDLen
	// overhead is how many bytes longer a sealed text is, before it is encoded.
	overhead = headLen + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
)

// NewRing derives the keys for one purpose, such as "requestState", from secrets. What is sealed for
// one purpose cannot be opened for another one. An error says which secret is of no use.
func NewRing(purpose string, secrets [][]byte) (Ring, error) {
	if err := Check(secrets); err != nil {
		return nil, err
	}
	var ring Ring
	for i, secret := range secrets {
		k, err := newKey(purpose, secret)
		if err != nil {
			return nil, fmt.Errorf("state key %d: %w", i+1, err)
		}
		ring = append(ring, k)
	}
	return ring, nil
}

// Check says which of some secrets is of no use, or returns nil.
func Check(secrets [][]byte) error {
	for i, secret := range secrets {
		if len(secret) < MinKeyBytes {
			return fmt.Errorf("state key %d has %d bytes and needs %d", i+1, len(secret), MinKeyBytes)
		}
		if bytes.Count(secret, secret[:1]) == len(secret) {
			return fmt.Errorf("state key %d has the same byte everywhere, so that it can be guessed: a key must be random", i+1)
		}
	}
	return nil
}

// RandomSecret returns a secret that no other process has.
func RandomSecret() []byte {
	secret := make([]byte, MinKeyBytes)
	rand.Read(secret) // never fails
	return secret
}

func newKey(purpose string, secret []byte) (k key, err error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, "vitrine "+purpose, chacha20poly1305.KeySize+keyIDLen)
	if err != nil {
		return k, err
	}
	k.id = [keyIDLen]byte(derived[chacha20poly1305.KeySize:])
	// Its nonces have 192 bits. A client can have the server seal as often as it likes, and random
	// nonces of 96 bits would repeat after some 2^48 of them.
	k.aead, err = chacha20poly1305.NewX(derived[:chacha20poly1305.KeySize])
	return k, err
}

// text encodes what is sealed. It is safe in JSON, URLs and headers.
var text = base64.RawURLEncoding.Strict()

// Seal returns the sealed text of plain. No two texts are equal.
func (r Ring) Seal(plain []byte) string {
	k := &r[0]
	sealed := make([]byte, headLen+chacha20poly1305.NonceSizeX, overhead+len(plain))
	sealed[0] = format
	copy(sealed[1:], k.id[:])
	nonce := sealed[headLen:]
	rand.Read(nonce)
	return text.EncodeToString(k.aead.Seal(sealed, nonce, plain, sealed[:headLen]))
}

// SealedLen returns the length of what Seal returns for n bytes.
func SealedLen(n int) int { return text.EncodedLen(overhead + n) }

// TextLen returns how many bytes of a sealed text n bytes take.
func TextLen(n int) int { return text.EncodedLen(n) }

// Open returns what was sealed, or why that is not possible: state_malformed, state_foreign or
// state_changed.
func (r Ring) Open(sealedText string) ([]byte, mcp.StateFault) {
	sealed, err := text.DecodeString(sealedText)
	// Package base64 skips line breaks. Without this check one state had several texts.
	if err != nil || strings.ContainsAny(sealedText, "\r\n") || len(sealed) < headLen || sealed[0] != format {
		return nil, mcp.StateMalformed
	}
	head, rest := sealed[:headLen], sealed[headLen:]
	for i := range r {
		if r[i].id != [keyIDLen]byte(head[1:]) {
			continue
		}
		if len(rest) < chacha20poly1305.NonceSizeX {
			return nil, mcp.StateChanged
		}
		nonce, body := rest[:chacha20poly1305.NonceSizeX], rest[chacha20poly1305.NonceSizeX:]
		if plain, err := r[i].aead.Open(body[:0], nonce, body, head); err == nil {
			return plain, ""
		}
		return nil, mcp.StateChanged
	}
	return nil, mcp.StateForeign
}
