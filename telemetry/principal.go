package telemetry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// pseudonymBytes is the number of bytes of the HMAC in a pseudonym.
const pseudonymBytes = 16

// appendPrincipal appends the attributes of a principal. p may be nil.
func (t *Telemetry) appendPrincipal(attrs []attribute.KeyValue, p *auth.Principal) []attribute.KeyValue {
	if p == nil {
		return attrs
	}
	user := p.Subject
	if t.pseudonymKey != nil {
		mac := hmac.New(sha256.New, t.pseudonymKey)
		mac.Write([]byte(p.Key()))
		user = hex.EncodeToString(mac.Sum(nil)[:pseudonymBytes])
	}
	attrs = append(attrs, keyUser.String(logline.Printable(user, maxText)))
	return appendText(attrs, keyTenant, logline.Printable(p.Tenant, maxName))
}
