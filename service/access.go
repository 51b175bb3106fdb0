package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/internal/reload"
	"github.com/vitrine-mcp/vitrine/server"
)

// access is what the configuration says of callers: who they are, what they may do, and what is
// recorded of it. What the configuration does not mention is nil.
type access struct {
	adminToken    *adminToken
	certificates  *reload.Files[keyPair]
	resource      *oauth.ResourceServer
	authenticator auth.Authenticator
	operators     auth.Authenticator // lets those callers in that may use the admin listener
	policy        *policy.Policy
	audit         *audit.Log
	limitReached  func(limit string) // set when there is a server, as is policyChanged
	policyChanged func()

	// closeTime is how long close may take at the end: what the telemetry has left of the flush time-out.
	closeTime time.Duration
}

// openAccess reads the files that the configuration names. token is the credential of the program on
// standard input and output. checkOnly is for a process that serves nothing: it keeps no record.
func openAccess(cfg *Config, token string, checkOnly bool) (a *access, err error) {
	a = &access{limitReached: func(string) {}, policyChanged: func() {}, closeTime: cfg.FlushTimeout}
	if a.adminToken, err = newAdminToken(cfg.AdminTokenFile); err != nil {
		return nil, err
	}
	if a.certificates, err = newTLS(cfg.TLS); err != nil {
		return nil, err
	}
	if a.policy, err = newPolicy(cfg.Policy, func(limit string) { a.limitReached(limit) }, func() { a.policyChanged() }); err != nil {
		return nil, err
	}
	if a.resource, err = newResourceServer(cfg, token); err != nil {
		return nil, err
	}
	sources, err := cfg.authenticators(a.resource)
	if err != nil {
		return nil, errors.Join(err, a.close(context.Background()))
	}
	a.authenticator = newAuthenticator(cfg, sources, a.resource, token)
	if a.operators, err = newOperators(cfg.AdminSubjects, sources); err != nil {
		return nil, errors.Join(err, a.close(context.Background()))
	}
	if a.audit, err = newAudit(cfg.Audit, checkOnly); err != nil {
		return nil, errors.Join(err, a.close(context.Background()))
	}
	return a, nil
}

// configure gives a server what the configuration says of callers.
func (a *access) configure(srv *server.Server) {
	if a.authenticator != nil {
		srv.SetAuthenticator(a.authenticator)
	}
	if a.policy != nil {
		srv.SetPolicies(a.policy)
		a.policyChanged = srv.PoliciesChanged
		for _, found := range a.policy.Check(srv.Items()) {
			slog.Warn("policy.finding", "rule", found.Rule, "line", found.Line, "problem", found.Text)
		}
		srv.Telemetry().AddSource(policySource{a.policy}) // never removed, as that of the server
	}
	srv.Telemetry().AddSource(credentialFiles{a, srv.Authenticator()}) // never removed, as that of the server
	if a.audit != nil {
		server.SetAudit(srv, a.audit)
	}
}

// watch follows the file of the policy until stop is called.
func (a *access) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if a.policy != nil {
		watching.Go(func() { a.policy.Watch(ctx) })
	}
	return func() {
		cancel()
		watching.Wait()
	}
}

// close ends what works in the background, and writes the records that are left.
func (a *access) close(ctx context.Context) error {
	var errs []error
	if a.resource != nil {
		errs = append(errs, a.resource.Close())
	}
	if err := a.audit.Close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("service: %w", err))
	}
	return errors.Join(errs...)
}

// addMetadata adds the pages that tell clients where tokens for the server come from (RFC 9728).
func (a *access) addMetadata(mux *http.ServeMux, bound func(http.Handler) http.Handler) {
	if a.resource == nil {
		return
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(a.resource.MetadataPaths()))) {
		mux.Handle(exact(path), bound(a.resource.Handler()))
	}
}

// closeInTime is close within a.closeTime. An error is logged: the process has ended in all else.
func (a *access) closeInTime() {
	ctx, cancel := context.WithTimeout(context.Background(), max(a.closeTime-auditGivesUp, a.closeTime/2))
	defer cancel()
	if err := a.close(ctx); err != nil {
		slog.Error("audit.close", "error", err)
	}
}

// auditGivesUp is how long [audit.Log.Close] waits, after its context has ended, for a sink that hangs.
const auditGivesUp = 100 * time.Millisecond
