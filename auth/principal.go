// Package auth has the identity of callers, and what they may do. The server's [Authenticator]
// finds the [Principal] of a request once, before the server spends resources on the request.
// Middlewares, handlers, logs, spans and the pages for operators get it. A [Policy] decides what
// the principal may do.
package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Principal is the person or program that a client speaks for. It is immutable once an
// [Authenticator] has returned it, and then safe for concurrent use.
type Principal struct {
	// Issuer names the issuer of the subject, such as the URL of an authorization server. It
	// may be empty if there is only one.
	Issuer string
	// Subject identifies the principal at its issuer and never changes. It must not be a
	// credential, because logs, pages and stores of tasks contain it.
	Subject string
	// Tenant is the organisation that the principal belongs to, or "".
	Tenant string
	// Client identifies the client software at the issuer (client_id), or is "".
	Client string
	// Scopes are what the principal may do.
	Scopes []string
	// Actors are the parties that act for the subject, the nearest first (RFC 8693, act).
	Actors []string
	// Expires is the time until which the credentials are accepted; zero means for ever. An authenticator may add
	// the difference that it allows between clocks.
	Expires time.Time
	// Claims are further statements of the issuer.
	Claims map[string]any
}

// HasScope reports whether the principal has a scope. p may be nil and then has none.
func (p *Principal) HasScope(scope string) bool {
	return p != nil && slices.Contains(p.Scopes, scope)
}

// keySeparator cannot be in an issuer, a subject or a tenant, see [Principal.Check].
const keySeparator = "\x1f"

// Key identifies the principal by issuer, subject and tenant: two principals are the same
// if their keys are equal. Sessions, tasks and sealed state are bound to it, so that they
// survive a refreshed token. It is "" for nil, which stands for all callers without a
// principal.
func (p *Principal) Key() string {
	switch {
	case p == nil:
		return ""
	case p.Tenant != "":
		return p.Issuer + keySeparator + p.Subject + keySeparator + p.Tenant
	case p.Issuer == "":
		return p.Subject
	}
	return p.Issuer + keySeparator + p.Subject
}

// String returns the key in a readable form, see [KeyText].
func (p *Principal) String() string { return KeyText(p.Key()) }

// KeyText returns a key of [Principal.Key] in a readable form: the subject, followed by the
// issuer and the tenant if there are any.
func KeyText(key string) string {
	issuer, subject, ok := strings.Cut(key, keySeparator)
	if !ok {
		return key
	}
	subject, tenant, _ := strings.Cut(subject, keySeparator)
	if issuer != "" {
		subject += " (" + issuer + ")"
	}
	if tenant != "" {
		subject += " of " + tenant
	}
	return subject
}

// Check returns an error for a principal that cannot be distinguished from others: without a
// subject, or with control characters in its issuer, subject or tenant. p may be nil, which is
// valid.
func (p *Principal) Check() error {
	switch {
	case p == nil:
		return nil
	case p.Subject == "":
		return errors.New("auth: the principal has no subject")
	case hasControl(p.Issuer):
		return fmt.Errorf("auth: the issuer %q has a control character", p.Issuer)
	case hasControl(p.Subject):
		return fmt.Errorf("auth: the subject %q has a control character", p.Subject)
	case hasControl(p.Tenant):
		return fmt.Errorf("auth: the tenant %q has a control character", p.Tenant)
	}
	return nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
