package telemetry

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/auth"
)

const (
	// pseudonymBytes is the number of bytes of the HMAC in a pseudonym.
	pseudonymBytes = 16
	// minPseudonymKey is the least size of the key, in bytes.
	minPseudonymKey = 16
)

// pseudonym returns what spans have in place of the subject of a principal.
func (c *config) pseudonym(p *auth.Principal) string {
	mac := hmac.New(sha256.New, c.pseudonymKey)
	mac.Write([]byte(p.Key()))
	return hex.EncodeToString(mac.Sum(nil)[:pseudonymBytes])
}

// checkPseudonymKey returns what is wrong with the key of pseudonyms, or nil.
func (c *config) checkPseudonymKey() error {
	key := c.pseudonymKey
	switch {
	case !c.pseudonyms:
		return nil
	case len(key) < minPseudonymKey:
		return fmt.Errorf("telemetry: the key of WithPseudonyms has %d bytes and needs %d", len(key), minPseudonymKey)
	case bytes.Count(key, key[:1]) == len(key):
		return errors.New("telemetry: the key of WithPseudonyms has the same byte everywhere, so that it can be guessed: it must be random")
	}
	return nil
}
