package local

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Certificates is an [auth.Authenticator] for clients with a certificate (mutual TLS). The subject of
// the principal is a name of the certificate. The TLS configuration of the listener must verify client
// certificates; a certificate that it has not verified is ignored. Immutable and safe for concurrent
// use.
type Certificates struct {
	// Subject says which name is the subject: "uri" (such as a SPIFFE id), "dns" or "email" for a
	// subject alternative name, or "cn" for the common name. "" is "uri". A certificate must have
	// exactly one such name.
	Subject string
	// Scopes are those of every principal.
	Scopes []string
}

// byCertificates says who refuses.
const byCertificates = "client_certificate"

// Check returns an error for a Subject that is none of the names.
func (c *Certificates) Check() error {
	_, err := namesOf(c.Subject, &x509.Certificate{})
	return err
}

// Authenticate implements [auth.Authenticator]. A caller without a verified certificate matches
// [auth.ErrNotRecognized]. A certificate that expires while its connection lives is refused from then on.
func (c *Certificates) Authenticate(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	if caller.TLS == nil || len(caller.TLS.VerifiedChains) == 0 || len(caller.TLS.VerifiedChains[0]) == 0 {
		return nil, refuseCertificate("certificate_missing", auth.ErrNotRecognized)
	}
	leaf := caller.TLS.VerifiedChains[0][0]
	expires := expiry(caller.TLS.VerifiedChains)
	if !time.Now().Before(expires) { // it was good at the handshake; the connection may live for days
		return nil, refuseCertificate("certificate_expired",
			fmt.Errorf("auth: the certificate %s, or one that vouches for it, has expired at %s", leaf.SerialNumber, expires.UTC().Format(time.RFC3339)))
	}
	names, err := namesOf(c.Subject, leaf)
	if err != nil {
		return nil, refuseCertificate("certificate_name", err)
	}
	if len(names) != 1 || names[0] == "" {
		return nil, refuseCertificate("certificate_name",
			fmt.Errorf("auth: the certificate %s has %d names of the kind %q, want one", leaf.SerialNumber, len(names), c.Subject))
	}
	return &auth.Principal{Issuer: leaf.Issuer.String(), Subject: names[0], Scopes: c.Scopes, Expires: expires}, nil
}

// expiry returns when the last of the chains ends. A chain ends with the first of its certificates.
func expiry(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}

func namesOf(kind string, leaf *x509.Certificate) (names []string, err error) {
	switch kind {
	case "", "uri":
		for _, u := range leaf.URIs {
			names = append(names, u.String())
		}
		return names, nil
	case "dns":
		return leaf.DNSNames, nil
	case "email":
		return leaf.EmailAddresses, nil
	case "cn":
		return []string{leaf.Subject.CommonName}, nil
	}
	return nil, errors.New("auth: the subject of a client certificate is one of uri, dns, email and cn")
}

func refuseCertificate(reason string, err error) error {
	return &mcp.Refusal{Status: http.StatusUnauthorized, Reason: reason, By: byCertificates, Err: err}
}
