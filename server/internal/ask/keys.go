package ask

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A keyRing seals with its first key and unseals with any of its keys.
type keyRing []stateKey

type stateKey struct {
	id   [keyIDLen]byte
	aead cipher.AEAD
}

const (
	minStateKey = 32
	keyIDLen    = 8
	// stateVersion is the first byte of a sealed state. It names the format.
	stateVersion = 1
	// headLen is the length of what precedes the nonce and is not encrypted: version and key id.
	headLen = 1 + keyIDLen
)

// newKeyRing derives the keys of a server from secrets and from its name. So several servers
// can use one secret, and none accepts the state of another.
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
		if bytes.Count(secret, secret[:1]) == len(secret) {
			return nil, fmt.Errorf("server: state key %d has the same byte everywhere, so that it can be guessed: a key must be random", i+1)
		}
		key, err := newStateKey(name, secret)
		if err != nil {
			return nil, fmt.Errorf("server: state key %d: %w", i+1, err)
		}
		ring = append(ring, key)
	}
	return ring, nil
}

func newStateKey(name string, secret []byte) (key stateKey, err error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, "vitrine requestState 1 "+name, 32+keyIDLen)
	if err != nil {
		return key, err
	}
	block, err := aes.NewCipher(derived[:32])
	if err != nil {
		return key, err
	}
	key.id = [keyIDLen]byte(derived[32:])
	key.aead, err = cipher.NewGCMWithRandomNonce(block)
	return key, err
}

// stateText encodes a sealed state. The text is safe in JSON, URLs and headers.
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
	// Package base64 skips line breaks. Without this check one state had several texts.
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
