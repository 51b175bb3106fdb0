package local_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func tokenFile(t *testing.T, lines ...string) string {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

func callerWith(name string, values ...string) *auth.Caller {
	return &auth.Caller{Transport: "http", Header: http.Header{name: values}, PeerAddr: "10.0.0.1:4711"}
}

// requireRefused requires a refusal with a reason, and reports whether another authenticator may
// know the caller.
func requireRefused(t *testing.T, p *auth.Principal, err error, reason string, another bool) {
	t.Helper()
	require.Nil(t, p)
	refusal, ok := mcp.AsRefusal(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 401, refusal.Status)
	require.Equal(t, reason, refusal.Reason)
	if another {
		require.ErrorIs(t, err, auth.ErrNotRecognized)
	} else {
		require.NotErrorIs(t, err, auth.ErrNotRecognized)
	}
}

func TestTokensStandForPrincipals(t *testing.T) {
	tokens, err := local.LoadTokens(tokenFile(t,
		"# the tokens of the desk", "",
		digest("ann's token")+" ann tenant=acme client=desk scopes=files:read,files:write issuer=here expires=2999-06-30",
		digest("bob's token")+"  bob # no scopes",
		digest("old token")+" old expires=2001-01-01"))
	require.NoError(t, err)

	p, err := tokens.Authenticate(t.Context(), callerWith("Authorization", "bearer ann's token"))
	require.NoError(t, err)
	require.Equal(t, &auth.Principal{
		Issuer: "here", Subject: "ann", Tenant: "acme", Client: "desk", Scopes: []string{"files:read", "files:write"},
		Expires: time.Date(2999, 6, 30, 0, 0, 0, 0, time.UTC),
	}, p)
	p, err = tokens.Authenticate(t.Context(), callerWith("Authorization", "Bearer bob's token"))
	require.NoError(t, err)
	require.Equal(t, &auth.Principal{Subject: "bob"}, p)

	p, err = tokens.Authenticate(t.Context(), callerWith("Authorization", "Bearer old token"))
	requireRefused(t, p, err, "token_expired", false)
	for _, wrong := range []string{"Bearer eve's token", "Bearer " + digest("bob's token"), "Bearer ANN'S TOKEN"} {
		p, err = tokens.Authenticate(t.Context(), callerWith("Authorization", wrong))
		requireRefused(t, p, err, "token_unknown", true)
	}
	for _, c := range []*auth.Caller{
		{Transport: "http"}, callerWith("Authorization", ""), callerWith("Authorization", "Bearer"), callerWith("Authorization", "Bearer "),
		callerWith("Authorization", "Basic ann's token"), callerWith("X-Token", "Bearer ann's token"),
		callerWith("Authorization", "Bearer ann's token", "Bearer bob's token"),
	} {
		p, err = tokens.Authenticate(t.Context(), c)
		requireRefused(t, p, err, "token_missing", true)
	}
}

func TestTheCallerIsNotToldWhatIsWrongWithAToken(t *testing.T) {
	tokens, err := local.LoadTokens(tokenFile(t, digest("old token")+" old expires=2001-01-01"))
	require.NoError(t, err)
	texts := map[string]bool{}
	for _, token := range []string{"old token", "no token"} {
		_, err := tokens.Authenticate(t.Context(), callerWith("Authorization", "Bearer "+token))
		refusal, _ := mcp.AsRefusal(err)
		texts[refusal.Challenge+fmt.Sprintf("%+v", refusal.RPC().Data)] = true
	}
	require.Len(t, texts, 1)
}

func TestBadTokenFilesAreRejected(t *testing.T) {
	good := digest("ann's token")
	for text, line := range map[string]string{
		"want the SHA-256":        "ann's-token ann",
		"digest of a token":       good,
		"there is no token":       "# nothing",
		"empty token":             digest("") + " ann",
		"twice":                   good + " ann\n" + good + " bob",
		"line 2":                  good + " ann\nx",
		"want a day":              good + " ann expires=soon",
		"none of issuer":          good + " ann color=red",
		`"scopes=": want`:         good + " ann scopes=",
		"has a control character": good + " a\x01nn",
	} {
		_, err := local.LoadTokens(tokenFile(t, strings.Split(line, "\n")...))
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), good, "errors show no digest")
	}
	_, err := local.LoadTokens(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Stale looks at the file itself: on an idle server nobody calls Authenticate.
func TestTokensKnowThatTheirFileIsStale(t *testing.T) {
	path := tokenFile(t, digest("a token")+" ann")
	tokens, err := local.LoadTokens(path)
	require.NoError(t, err)
	require.False(t, tokens.Stale())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("a mistake"), 0o600))
	require.Eventually(t, tokens.Stale, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.Eventually(t, func() bool { return !tokens.Stale() }, 30*time.Second, 50*time.Millisecond)
}
