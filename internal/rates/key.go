package rates

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Message is what rules look at.
type Message struct {
	// Method is the method of the route, and Tool the registered tool of a call, or "".
	Method, Tool string
	// Notification tells that the method was chosen by the client.
	Notification bool
	// Principal is the principal of the caller, or nil.
	Principal *auth.Principal
	// Addr is the address of the caller, with its port or without, or "".
	Addr string
	// Conn is the connection of a caller without an address, or nil. It must be comparable.
	Conn any
	// Turn is given back before the message waits for the store. It may be nil.
	Turn interface{ GiveTurn() }
}

// A key is what a bucket is for. It has the parts that the rule is per, and the zero value for
// the others.
type key struct {
	issuer, subject, tenant string
	addr                    share.Key
	conn                    any
	method, tool            string
}

// maxText bounds the texts of a principal in a key, in bytes: keys are kept.
const maxText = 256

// otherMethod stands for the notifications that no rule names.
const otherMethod = "_OTHER"

// key returns the key of a message. A caller without a principal counts by its address, and one
// without a tenant by its principal. The tenants of two issuers are two, whatever their names: callers that cannot be told apart by what the rule is per
// take nothing from each other.
func (r *Rule) key(m *Message) (k key) {
	for _, per := range r.Per {
		switch per {
		case PerTenant:
			if m.Principal != nil && m.Principal.Tenant != "" {
				k.issuer, k.tenant = shortened(m.Principal.Issuer), shortened(m.Principal.Tenant)
			} else {
				k.setPrincipal(m)
			}
		case PerPrincipal:
			k.setPrincipal(m)
		case PerAddress:
			k.setAddress(m)
		case PerMethod:
			k.method = m.Method
			if m.Notification && !slices.Contains(r.Methods, m.Method) {
				k.method = otherMethod
			}
		case PerTool:
			if m.Method == mcp.MethodToolsCall {
				k.tool = m.Tool
			}
		}
	}
	return k
}

func (k *key) setPrincipal(m *Message) {
	if m.Principal == nil {
		k.setAddress(m)
		return
	}
	k.issuer, k.subject, k.tenant = shortened(m.Principal.Issuer), shortened(m.Principal.Subject), shortened(m.Principal.Tenant)
}

// setAddress sets the address, or the connection if there is none.
func (k *key) setAddress(m *Message) {
	k.addr = share.KeyOf(nil, share.AddrOf(m.Addr))
	if k.addr == (share.Key{}) {
		k.conn = m.Conn
	}
}

// clone returns the key with texts of its own, which hold no token and no frame in memory.
func (k key) clone() key {
	for _, text := range []*string{&k.issuer, &k.subject, &k.tenant, &k.method, &k.tool} {
		*text = strings.Clone(*text)
	}
	return k
}

// shared returns the name of the bucket for the store, of 43 bytes. It says nothing about the caller. All
// replicas have the same one.
func (k key) shared(rule string) string {
	digest := sha256.New()
	for _, text := range []string{rule, k.issuer, k.subject, k.tenant, k.addr.String(), k.method, k.tool} {
		_, _ = fmt.Fprintf(digest, "%d:%s", len(text), text)
	}
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}

// shortened returns a text, or its digest if it is long.
func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	return string(digest[:])
}
