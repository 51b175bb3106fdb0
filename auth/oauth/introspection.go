package oauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/auth"
)

// introspects reports whether the issuer is asked about a token, because it is no JWT or because
// the issuer is asked about all of its own. A JWT that names another issuer is verified with the keys of that one: the issuer
// that is asked does not know it, and must not see it.
func (s *ResourceServer) introspects(token string) bool {
	i := s.cfg.Introspection
	if i == nil || !looksLikeJWT(token) {
		return i != nil
	}
	if !i.Always || len(s.issuers) == 1 {
		return i.Always
	}
	named := unverifiedClaims(token).issuer
	return named == i.Issuer || s.issuers[named] == nil
}

// unverifiedClaims returns what a JWT says that is not verified. Claims that cannot be read say nothing. It does not decode
// the header, see maxHeaderValues.
func unverifiedClaims(token string) *unverified {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, _ := base64.RawURLEncoding.DecodeString(payload)
	c := &unverified{}
	_ = json.Unmarshal(text, c)
	return c
}

// introspectedType refuses a token that is a JWT, but no access token, before the issuer is asked about it. The issuer verifies
// its signature (RFC 7662, section 4). typed tells that it has the type of access tokens.
func (s *ResourceServer) introspectedType(from *issuer, token string) (typed bool, refused *refusal) {
	alg, values := readHeader(token)
	switch {
	case !alg:
		return false, nil // an opaque token has no type
	case values > maxHeaderValues:
		return false, s.refuse(reasonMalformed, errFullHeader)
	}
	encoded, _, _ := strings.Cut(token, ".")
	text, _ := base64.RawURLEncoding.DecodeString(encoded) // readHeader has decoded it
	var header map[string]any
	if err := json.Unmarshal(text, &header); err != nil {
		return false, s.refuse(reasonMalformed, err)
	}
	return s.tokenType(from, header, unverifiedClaims(token))
}

// looksLikeJWT reports whether a token has three parts, of which the first is a JSON object with the member alg.
func looksLikeJWT(token string) bool {
	alg, _ := readHeader(token)
	return alg
}

// An introspected token is the result of an introspection that several requests share.
type introspected struct {
	verified verified
	refused  *refusal
}

var errFull = errors.New("there are too many introspections at one time (" + limitIntrospections + ")")

// introspect asks the issuer about a token. Requests with the same token ask once: the answer is
// remembered before they have it, and one that comes a moment later finds it. An address whose
// tokens were bad too often is refused before anything is asked, but not with a token that was good
// when the issuer was asked before: others behind the address may have bad ones.
func (s *ResourceServer) introspect(ctx context.Context, caller *auth.Caller, token string, sum digest) (verified, *refusal) {
	from := s.issuers[s.cfg.Introspection.Issuer]
	typed, refused := s.introspectedType(from, token)
	if refused != nil {
		return verified{}, refused
	}
	now := s.cfg.Now()
	if wait := s.failures.wait(caller.RemoteAddr, now); wait > 0 && !s.cache.ranOut(sum, now) {
		s.counts.reached(limitFailures)
		return verified{}, rateLimited(wait)
	}
	address := caller.RemoteAddr // the first caller with this token causes the request; the others only wait for its answer
	done := s.introspections.DoChan(string(sum[:]), func() (any, error) {
		now := s.cfg.Now()
		if p := s.cache.get(sum, now); p != nil {
			return introspected{verified: verified{principal: p, expires: p.Expires}}, nil
		}
		if reason := s.refused.reason(sum, now); reason != "" {
			return introspected{refused: s.refuse(reason, errRefusedBefore)}, nil
		}
		v, refused := s.ask(from, address, token)
		switch {
		case refused == nil:
			s.remember(sum, v, now)
			if typed {
				from.sendsType.Store(true)
			}
		case refused.Reason != reasonUnavailable: // that is not the caller's fault
			s.failed(address, sum, refused.Reason)
		}
		return introspected{v, refused}, nil
	})
	select {
	case r := <-done:
		result := r.Val.(introspected)
		return result.verified, result.refused
	case <-ctx.Done():
		return verified{}, unavailable(0, from.abandoned(ctx))
	}
}

// failed notes that the issuer was asked in vain about a token of a caller at an address.
func (s *ResourceServer) failed(address string, sum digest, reason string) {
	now := s.cfg.Now()
	s.cache.drop(sum)
	s.refused.add(sum, reason, now)
	if s.failures.add(address, now) {
		s.counts.reached(limitAddresses)
	}
}

// ask asks an issuer about a token of a caller at an address. It goes on if the callers that wait for the answer leave.
func (s *ResourceServer) ask(from *issuer, address, token string) (verified, *refusal) {
	if !s.begin() {
		return verified{}, unavailable(0, errClosed)
	}
	defer s.running.Done()
	holder := s.table.Get(keyOf(address))
	defer holder.Release()
	if !s.slots.TryAcquire(holder) {
		s.counts.reached(limitIntrospections)
		r := unavailable(s.cfg.MinRefreshInterval, errFull)
		r.Limit = limitIntrospections
		return verified{}, r
	}
	defer s.slots.Release(holder)
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	c, err := from.introspection(ctx, token)
	if err != nil {
		r := from.unavailable(err)
		if r.Limit == "" { // else the issuer was not asked
			from.noteIntrospection(err)
		}
		return verified{}, r
	}
	from.noteIntrospection(nil)
	return s.judge(from, c)
}

// introspection returns the answer of the issuer about a token.
func (i *issuer) introspection(ctx context.Context, token string) (*claims, error) {
	endpoint, err := i.introspectionEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	body, err := i.s.post(ctx, endpoint, token)
	if err != nil {
		return nil, fmt.Errorf("introspection: %w", err)
	}
	c := &claims{}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, fmt.Errorf("introspection: %s: %w", endpoint, err)
	}
	return c, nil
}

// judge decides about the answer to an introspection, by the rules for JWTs. Only the issuer may be
// missing: the answer is its own.
func (s *ResourceServer) judge(from *issuer, c *claims) (v verified, refused *refusal) {
	if active, _ := c.all["active"].(bool); !active {
		return v, s.refuse(reasonInactive, errors.New("the issuer says that the token is not active"))
	}
	if c.issuer != "" && c.issuer != from.name {
		return v, s.refuse(reasonIssuer, fmt.Errorf("the issuer of the token is %.200q, and %q was asked", c.issuer, from.name))
	}
	if kind, _ := c.all["token_type"].(string); kind != "" && !strings.EqualFold(kind, "Bearer") {
		return v, s.refuse(reasonType, fmt.Errorf("the token_type is %.64q, and must be Bearer", kind))
	}
	typ, _ := c.all["typ"].(string)
	use, _ := c.all["token_use"].(string)
	if refused := s.tokenUse(typ, use); refused != nil {
		return v, refused
	}
	if err := s.validator.Validate(c); err != nil {
		return v, s.refuseClaims(c, err)
	}
	p, err := c.principal(&s.cfg, from.name)
	if err != nil {
		return v, s.refuse(reasonClaims, err)
	}
	return verified{principal: p, expires: p.Expires}, nil
}

// introspectionEndpoint returns where the issuer is asked about tokens.
func (i *issuer) introspectionEndpoint(ctx context.Context) (string, error) {
	if endpoint := i.s.cfg.Introspection.Endpoint; endpoint != "" {
		return endpoint, nil
	}
	if i.metadata.Load() == nil {
		if err := i.refresh(ctx, causeFirst); err != nil && i.metadata.Load() == nil {
			return "", err
		}
	}
	if endpoint := i.metadata.Load().IntrospectionEndpoint; endpoint != "" {
		return endpoint, nil
	}
	return "", errors.New("its metadata has no introspection_endpoint: set Introspection.Endpoint")
}

// post sends a token to the introspection endpoint (RFC 7662, section 2.1).
func (s *ResourceServer) post(ctx context.Context, endpoint, token string) ([]byte, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if i := s.cfg.Introspection; cmp.Or(i.ClientID, i.ClientSecret) != "" {
		// Both are encoded before they are joined (RFC 6749, section 2.3.1).
		req.SetBasicAuth(url.QueryEscape(i.ClientID), url.QueryEscape(i.ClientSecret))
	}
	return s.do(req)
}
