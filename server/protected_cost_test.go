package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/server"
)

// How well a measured server is protected. Each level includes those before.
const (
	tokenIgnored = iota
	tokenVerified
	thenDecided
	thenRecorded
)

// costRules are evaluated both for each measured call.
const costRules = `
default: deny
rules:
  - name: no-commands
    effect: deny
    names: [echo]
    when: arguments.text.startsWith("sudo ") && !("admin" in principal.scopes)
  - name: staff
    effect: allow
    when: principal.subject == "ann"
`

// newProtectedCall returns a call with an access token. The same bytes come at all levels.
func newProtectedCall(tb testing.TB, level int) func() {
	issuer, token := issueTokens(tb)
	const resource = "https://mcp.example.com/mcp"
	rs, err := oauth.New(oauth.Config{Issuers: []string{issuer}, Resource: resource})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, rs.Close()) })
	var opts []server.Option
	var scopes []string
	if level >= tokenVerified {
		opts = append(opts, server.WithAuthenticator(rs))
	}
	if level >= thenDecided {
		rules, err := policy.Parse([]byte(costRules), policy.Config{})
		require.NoError(tb, err)
		opts, scopes = append(opts, server.WithPolicy(rules)), []string{"read"}
	}
	if level >= thenRecorded {
		opts = append(opts, server.WithAudit(costAudit(tb, false)))
	}
	rig := newModernRig(tb, costServer(tb, unsampled(tb), scopes, opts...))
	rig.token = []string{"Bearer " + token(resource, time.Hour)}
	return func() { rig.serve(tb) }
}
