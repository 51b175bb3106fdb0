// Package auth has the identity of callers. A [Principal] is found once for each
// request by the server's [Authenticator], before any of the server's resources
// are spent on the request, and goes with it: to middlewares, handlers, logs,
// spans and the pages for operators.
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
	// Issuer says who vouches for the subject, such as the URL of an authorization
	// server. It may be empty where there is only one.
	Issuer string
	// Subject identifies the principal at its issuer, for good. It is never a
	// credential: logs, pages and stores of tasks have it.
	Subject string
	// Tenant is the organisation that the principal belongs to, or "".
	Tenant string
	// Client identifies the client software at the issuer (client_id), or is "".
	Client string
	// Scopes are what the principal may do.
	Scopes []string
	// Actors are who acts for the subject, the nearest first (RFC 8693, act).
	Actors []string
	// Expires is when the credentials end; zero is never.
	Expires time.Time
	// Claims are what else the issuer says.
	Claims map[string]any
}

// HasScope reports whether the principal has a scope. p may be nil and then has none.
func (p *Principal) HasScope(scope string) bool {
	return p != nil && slices.Contains(p.Scopes, scope)
}

// keySeparator cannot be in an issuer or a subject, see [Principal.Check].
const keySeparator = "\x1f"

// Key identifies the principal by issuer and subject: two principals are the same
// if their keys are equal. Sessions, tasks and sealed state are bound to it. It is
// "" for nil, which stands for all callers without a principal.
func (p *Principal) Key() string {
	switch {
	case p == nil:
		return ""
	case p.Issuer == "":
		return p.Subject
	}
	return p.Issuer + keySeparator + p.Subject
}

// String returns the key in a form for people.
func (p *Principal) String() string { return KeyText(p.Key()) }

// KeyText returns what [Principal.Key] has returned in a form for people: the subject,
// and behind it the issuer if there is one.
func KeyText(key string) string {
	if issuer, subject, ok := strings.Cut(key, keySeparator); ok {
		return subject + " (" + issuer + ")"
	}
	return key
}

// Check returns an error for a principal that cannot be told from others: without a
// subject, or with control characters in its issuer or subject. nil is no error.
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
	}
	return nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
