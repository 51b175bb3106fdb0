package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
)

// The sources of identities that --admin-subjects names, beside the issuers of OAuth.
const (
	sourceCertificates = "certificates"
	sourceTokens       = "tokens"
)

// sourceSeparator is between a source and a subject. No issuer has a fragment (RFC 8414).
const sourceSeparator = "#"

// An identitySource is an authenticator of the configuration.
type identitySource struct {
	auth.Authenticator
	// names are those of its sources. If there are none, it does not count on the admin listener.
	names []string
	// issuers says that the source of a caller is its issuer, which the authenticator has verified.
	issuers bool
}

// An operatorSource lets callers in that may use the admin listener.
type operatorSource struct {
	identitySource
	operators []operatorName
}

// An operatorName is one of --admin-subjects.
type operatorName struct{ source, subject string }

// errNoOperator says that a caller is known and may not use the admin listener.
var errNoOperator = errors.New("service: the caller is not one of --" + flagAdminSubjects)

// Authenticate implements [auth.Authenticator].
func (s operatorSource) Authenticate(ctx context.Context, caller *auth.Caller) (*auth.Principal, error) {
	who, err := s.Authenticator.Authenticate(ctx, caller)
	if err != nil || who == nil {
		return nil, err
	}
	name := operatorName{s.names[0], who.Subject}
	if s.issuers {
		name.source = who.Issuer
	}
	if !slices.Contains(s.operators, name) {
		return nil, errNoOperator
	}
	return who, nil
}

// newOperators returns the authenticator of the admin listener, or nil if no subjects may use it. all are the authenticators
// of the configuration.
func newOperators(subjects []string, all []identitySource) (auth.Authenticator, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	var sources []string
	for _, s := range all {
		sources = append(sources, s.names...)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("service: the admin listener is for some subjects (--" + flagAdminSubjects + "), and nothing says who calls")
	case len(sources) == 0:
		return nil, errors.New("service: --" + flagAdminSubjects + " needs tokens, client certificates or OAuth: the header of a proxy (--" +
			flagProxyHeader + ") does not count on the admin listener, because no proxy is in front of it and every client could set the header")
	}
	var names []operatorName
	for _, text := range subjects {
		name, err := parseOperator(text, sources)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	var operators []auth.Authenticator
	for _, s := range all {
		if len(s.names) > 0 {
			operators = append(operators, operatorSource{s, names})
		}
	}
	return auth.FirstOf(operators...), nil
}

// parseOperator reads one of --admin-subjects. If there are several sources, it must name one of them: each may give the same
// name to another caller.
func parseOperator(text string, sources []string) (operatorName, error) {
	for _, source := range sources {
		if subject, found := strings.CutPrefix(text, source+sourceSeparator); found {
			return operatorName{source, subject}, nil
		}
	}
	if len(sources) > 1 {
		return operatorName{}, fmt.Errorf("service: %q does not say whose subject it is: --%s needs source%ssubject with one of the sources %s",
			text, flagAdminSubjects, sourceSeparator, strings.Join(sources, ", "))
	}
	return operatorName{sources[0], text}, nil
}

// operates returns the caller of the admin listener if it is one of the subjects that may use it, else
// nil.
func (p *process) operates(r *http.Request) *operator {
	if p.access.operators == nil {
		return nil
	}
	who, err := p.access.operators.Authenticate(r.Context(), &auth.Caller{
		Transport: "http", Header: r.Header, RemoteAddr: r.RemoteAddr, PeerAddr: r.RemoteAddr, TLS: r.TLS,
	})
	if err != nil || who == nil {
		return nil
	}
	return &operator{principal: who}
}
