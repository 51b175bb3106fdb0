package oauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A key is a public key of an issuer.
type key struct {
	id     string
	text   string // the members that make it: two keys with equal texts are the same
	public any    // *ecdsa.PublicKey, ed25519.PublicKey or *rsa.PublicKey
	algs   []string
	// gone tells that the issuer does not have the key any more. What it has verified is not
	// trusted any more.
	gone atomic.Bool
}

// A keySet has the keys of an issuer.
type keySet struct {
	all     []*key
	fetched time.Time
	ignored int // keys that cannot be used
}

// maxUnnamed bounds the keys that are tried for a token that names none.
const maxUnnamed = 10

// find returns the keys for a token, and whether there is a key with its key id. A token without a
// key id may be of any key for its algorithm.
func (s *keySet) find(id, alg string) (keys []*key, known bool) {
	for _, k := range s.all {
		if id != "" && k.id != id {
			continue
		}
		known = true
		if slices.Contains(k.algs, alg) {
			keys = append(keys, k)
		}
	}
	if id == "" && len(keys) > maxUnnamed {
		return nil, true
	}
	return keys, known
}

// parseKeys reads a JWK Set (RFC 7517). Keys that are not public keys for signatures with the
// allowed algorithms are ignored. A key that old has too is the same value again.
func parseKeys(document []byte, allowed []string, limit int, old *keySet) (*keySet, error) {
	var set struct {
		Keys *[]jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("the keys are no JWK Set: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New(`the keys are no JWK Set: there is no member "keys"`)
	}
	if len(*set.Keys) > limit {
		return nil, limitError{limitIssuerKeys, fmt.Sprintf("there are %d keys, and %s allows %d", len(*set.Keys), limitIssuerKeys, limit)}
	}
	parsed := &keySet{}
	for _, raw := range *set.Keys {
		k := parseKey(raw, allowed)
		if k == nil {
			parsed.ignored++
			continue
		}
		if slices.ContainsFunc(parsed.all, k.same) {
			continue
		}
		if old != nil {
			if i := slices.IndexFunc(old.all, k.same); i >= 0 {
				k = old.all[i]
			}
		}
		parsed.all = append(parsed.all, k)
	}
	return parsed, nil
}

func (k *key) same(other *key) bool { return k.text == other.text }

// parseKey reads one key, or returns nil if it cannot be used.
func parseKey(raw []byte, allowed []string) *key {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return nil
	}
	if m.KTY == jwkset.KtyOct {
		return nil // a secret that everybody can read
	}
	// Only the public key itself: no certificates, and nothing to fetch.
	parsed, err := jwkset.NewJWKFromMarshal(
		jwkset.JWKMarshal{KTY: m.KTY, CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E}, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return nil
	}
	k := &key{id: m.KID, public: parsed.Key()}
	for _, alg := range algorithmsOf(k.public) {
		if slices.Contains(allowed, alg) && (m.ALG == "" || m.ALG == jwkset.ALG(alg)) {
			k.algs = append(k.algs, alg)
		}
	}
	if len(k.algs) == 0 {
		return nil
	}
	k.text = fmt.Sprintf("%q", []string{m.KID, string(m.ALG), string(m.KTY), string(m.CRV), m.X, m.Y, m.N, m.E})
	return k
}

// The sizes of keys for RSA that are accepted, in bits. Verifying takes time that grows with the
// square of the size.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// algorithmsOf returns the algorithms that a public key is for; none if it cannot be used.
func algorithmsOf(public any) []string {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		if _, err := k.ECDH(); err != nil {
			return nil // not a point of the curve
		}
		return map[int][]string{256: {"ES256"}, 384: {"ES384"}, 521: {"ES512"}}[k.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits || k.E < 3 || k.E%2 == 0 {
			return nil
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	}
	return nil
}
