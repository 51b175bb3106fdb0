package auth_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// answers is an authenticator that always answers the same.
type answers struct {
	p   *auth.Principal
	err error
}

func (a answers) Authenticate(context.Context, *auth.Caller) (*auth.Principal, error) {
	return a.p, a.err
}

type challenging struct{ answers }

func (challenging) Challenge(status int, scopes []string) string { return fmt.Sprint(status, scopes) }

func TestTheFirstThatRecognizesTheCallerDecides(t *testing.T) {
	ann, bad := &auth.Principal{Subject: "ann"}, errors.New("bad")
	unknown := answers{err: fmt.Errorf("no header: %w", auth.ErrNotRecognized)}
	refusal := answers{err: &mcp.Refusal{Status: 401, Reason: "token", Err: auth.ErrNotRecognized}}
	for _, c := range []struct {
		name string
		all  []auth.Authenticator
		p    *auth.Principal
		err  error
	}{
		{"the second knows", []auth.Authenticator{unknown, answers{p: ann}}, ann, nil},
		{"a refusal can say so, too", []auth.Authenticator{refusal, answers{p: ann}}, ann, nil},
		{"wrong credentials are not tried elsewhere", []auth.Authenticator{answers{err: bad}, answers{p: ann}}, nil, bad},
		{"nobody knows", []auth.Authenticator{unknown, refusal}, nil, refusal.err},
		{"no principal is needed", []auth.Authenticator{unknown, answers{}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := auth.FirstOf(c.all...).Authenticate(t.Context(), &auth.Caller{})
			require.Same(t, c.p, p)
			require.Equal(t, c.err, err)
		})
	}
}

func TestFirstOfChallengesIfOneDoes(t *testing.T) {
	_, ok := auth.FirstOf(answers{}).(auth.Challenger)
	require.False(t, ok)
	c, ok := auth.FirstOf(answers{}, challenging{}).(auth.Challenger)
	require.True(t, ok)
	require.Equal(t, "403 [a]", c.Challenge(403, []string{"a"}))
}

// reporter has counted something.
type reporter struct {
	auth.AuthenticatorFunc
	stats auth.Stats
}

func (r reporter) Stats() auth.Stats { return r.stats }

// What several authenticators have counted is added up.
func TestFirstOfAddsUpCounts(t *testing.T) {
	one := auth.Stats{
		Issuers: []auth.IssuerStats{{Issuer: "a"}}, CachedTokens: 1, CachedBytes: 10, Evicted: 1, LimitsReached: map[string]uint64{"x": 1, "y": 1},
	}
	two := auth.Stats{
		Issuers: []auth.IssuerStats{{Issuer: "b"}}, CachedTokens: 2, CachedBytes: 20, Evicted: 3, LimitsReached: map[string]uint64{"x": 5},
		Verifications: []auth.VerificationStats{{Method: auth.MethodJWT, Accepted: 1}},
	}
	got := auth.FirstOf(reporter{stats: one}, auth.AuthenticatorFunc(nil), reporter{stats: two}).(auth.Reporter).Stats()
	require.Equal(t, auth.Stats{
		Issuers: []auth.IssuerStats{{Issuer: "a"}, {Issuer: "b"}}, CachedTokens: 3, CachedBytes: 30, Evicted: 4,
		LimitsReached: map[string]uint64{"x": 6, "y": 1}, Verifications: []auth.VerificationStats{{Method: auth.MethodJWT, Accepted: 1}},
	}, got)
	require.Equal(t, map[string]uint64{"x": 6, "y": 1}, got.LimitsReached)
	require.Equal(t, map[string]uint64{"x": 1, "y": 1}, one.LimitsReached)
	require.Zero(t, auth.FirstOf().(auth.Reporter).Stats())
}
