package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v5"
	gosdkauth "github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/server"
)

// Protected returns Vitrine and the Go SDK, each followed by itself with more and more protection.
// All get the same bytes, among them an access token, which the plain ones ignore. mcp-go is not
// among them: it verifies no tokens.
func Protected() []Kind {
	return named("vitrine", "vitrine-token", "vitrine-policy", "vitrine-audit", "vitrine-new", "gosdk", "gosdk-token")
}

func protectedKinds() []Kind {
	const vitrine, gosdk = "github.com/vitrine-mcp/vitrine", "github.com/modelcontextprotocol/go-sdk"
	kind := func(name, title string, level int) Kind {
		return Kind{Name: name, Title: title, Module: vitrine, Env: unsampled, New: func(tools int) (Server, error) { return newProtected(tools, level) }}
	}
	return []Kind{
		kind("vitrine-token", "… with a remembered JWT", remembered),
		kind("vitrine-policy", "… and a scope, and two rules of a policy", decided),
		kind("vitrine-audit", "… and the audit, with a chain, to a file", audited),
		kind("vitrine-new", "Vitrine with a JWT (ES256) that is verified for each call", verified),
		{
			Name: EverythingOn, Title: "Vitrine, everything on", Module: vitrine, Env: sampled, Exports: exported,
			New: func(tools int) (Server, error) { return newProtected(tools, everything) },
		},
		{
			Name: "vitrine-everything-gogc", Title: "… and the garbage collector as often as in other programs (GOGC=100)", Module: vitrine,
			Env: func(sink string) []string { return append(sampled(sink), "GOGC=100") }, Exports: exported,
			New: func(tools int) (Server, error) { return newProtected(tools, everything) },
		},
		{Name: "gosdk-token", Title: "… with RequireBearerToken, a remembered JWT and a scope", Module: gosdk, New: newGoSDKProtected},
	}
}

// IsProtected reports whether a kind of [Protected] is not a plain one.
func IsProtected(k Kind) bool {
	return slices.ContainsFunc(protectedKinds(), func(other Kind) bool { return other.Name == k.Name })
}

// The levels of protection. Each includes those before, but only the first one has no cache of tokens.
const (
	verified = iota
	remembered
	decided
	audited
	everything // also a rate limit, and the store of several replicas; run by package service
)

// rules are evaluated both for each call.
const rules = `
default: deny
rules:
  - name: no-commands
    effect: deny
    names: [` + Echo + `]
    when: arguments.text.startsWith("sudo ") && !("tools:admin" in principal.scopes)
  - name: staff
    effect: allow
    when: principal.tenant == "` + tenant + `"
`

func newProtected(tools, level int) (s Server, err error) {
	var protection protection
	defer func() {
		if err != nil {
			err = errors.Join(err, protection.close())
		}
	}()
	opts, err := protection.options(level)
	if err != nil {
		return s, err
	}
	var scopes []string
	if level >= decided {
		scopes = []string{scope}
	}
	srv, err := server.TryNew("bench", "1", opts...)
	if err != nil {
		return s, err
	}
	protection.closers = append(protection.closers, func() error { return srv.Shutdown(context.Background()) }) // before the audit
	addTools(srv, tools, scopes...)
	if level == everything {
		s = served(srv, Modern)
	} else if s, err = alone(srv); err != nil {
		return s, err
	}
	s.Close = protection.close
	return s, err
}

// protection is what a protected server needs beside itself.
type protection struct{ closers []func() error }

func (p *protection) close() (err error) {
	for _, close := range slices.Backward(p.closers) {
		err = errors.Join(err, close())
	}
	return err
}

// options returns the options of a server.
func (p *protection) options(level int) ([]server.Option, error) {
	issuer, err := thisIssuer()
	if err != nil {
		return nil, err
	}
	config := oauth.Config{
		Issuers: []string{issuerURL}, Resource: resource, TenantClaim: "tenant", Client: &http.Client{Transport: issuer},
	}
	if level == verified {
		config.CacheTTL = -1
	}
	rs, err := oauth.New(config)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, rs.Close)
	opts := []server.Option{server.WithAuthenticator(rs)}
	if level >= decided {
		rules, err := policy.Parse([]byte(rules), policy.Config{})
		if err != nil {
			return nil, err
		}
		opts = append(opts, server.WithPolicy(rules))
	}
	if level >= audited {
		log, err := p.audit()
		if err != nil {
			return nil, err
		}
		opts = append(opts, server.WithAudit(log))
	}
	if level == everything {
		more, err := p.shared()
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	return opts, nil
}

// audit returns a log that writes to a file.
func (p *protection) audit() (*audit.Log, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(dir) })
	file, err := auditfile.New(auditfile.Config{Path: filepath.Join(dir, "audit.jsonl"), MaxFiles: 1})
	if err != nil {
		return nil, err
	}
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{file}, Key: bytes.Repeat([]byte("k"), audit.MinKeyBytes)})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p.closers = append(p.closers, func() error {
		err := log.Close(context.Background())
		for _, sink := range log.Stats() {
			for reason, n := range sink.Lost {
				err = errors.Join(err, fmt.Errorf("%d records of the audit are lost: %s", n, reason))
			}
		}
		return err
	})
	return log, nil
}

// newGoSDKProtected has the middleware of the Go SDK. Its verifier, which is the program's own, remembers
// the token, as Vitrine does.
func newGoSDKProtected(tools int) (Server, error) {
	s, err := newGoSDK(tools)
	if err != nil {
		return s, err
	}
	issuer, err := thisIssuer()
	if err != nil {
		return s, err
	}
	var known sync.Map // of *gosdkauth.TokenInfo, by the token
	verify := func(_ context.Context, token string, _ *http.Request) (*gosdkauth.TokenInfo, error) {
		if info, ok := known.Load(token); ok {
			return info.(*gosdkauth.TokenInfo), nil
		}
		var claims struct {
			jwt.RegisteredClaims
			Scope string `json:"scope"`
		}
		_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return issuer.key.Public(), nil },
			jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(issuerURL), jwt.WithAudience(resource), jwt.WithExpirationRequired())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", gosdkauth.ErrInvalidToken, err)
		}
		info := &gosdkauth.TokenInfo{UserID: claims.Subject, Scopes: strings.Fields(claims.Scope), Expiration: claims.ExpiresAt.Time}
		known.Store(token, info)
		return info, nil
	}
	protect := gosdkauth.RequireBearerToken(verify, &gosdkauth.RequireBearerTokenOptions{Scopes: []string{scope}})
	s.Modern, s.Legacy = protect(s.Modern), protect(s.Legacy)
	return s, nil
}
