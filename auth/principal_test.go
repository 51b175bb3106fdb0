package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

func TestDifferentPrincipalsHaveDifferentKeys(t *testing.T) {
	seen := map[string]*auth.Principal{}
	for _, p := range []*auth.Principal{
		nil, {Subject: "ann"}, {Issuer: "https://a.example", Subject: "ann"}, {Issuer: "https://b.example", Subject: "ann"},
		{Issuer: "https://a.example", Subject: "bob"}, {Subject: "ann", Tenant: "acme"}, {Subject: "acme", Tenant: "ann"},
		{Issuer: "https://a.example", Subject: "ann", Tenant: "acme"}, {Issuer: "ann", Subject: "acme"},
	} {
		require.NoError(t, p.Check())
		require.NotContains(t, seen, p.Key())
		seen[p.Key()] = p
	}
	p := &auth.Principal{Issuer: "https://a.example", Subject: "ann", Scopes: []string{"read"}}
	refreshed := &auth.Principal{Issuer: "https://a.example", Subject: "ann", Client: "other"}
	require.Equal(t, p.Key(), refreshed.Key(), "issuer and subject are who it is")
	require.Equal(t, "ann (https://a.example)", p.String())
	require.Equal(t, "ann", (&auth.Principal{Subject: "ann"}).String())
	require.Equal(t, "", (*auth.Principal)(nil).String())
	require.Equal(t, "ann of acme", (&auth.Principal{Subject: "ann", Tenant: "acme"}).String())
	require.Equal(t, "ann (https://a.example) of acme", (&auth.Principal{Issuer: "https://a.example", Subject: "ann", Tenant: "acme"}).String())
}

func TestCheckRejectsAmbiguousPrincipals(t *testing.T) {
	for text, p := range map[string]*auth.Principal{
		"no subject":        {Issuer: "https://a.example"},
		"control character": {Subject: "ann\x1f"},
		"the issuer":        {Issuer: "a\x1fb", Subject: "ann"},
		"the tenant":        {Subject: "ann", Tenant: "a\x1fb"},
	} {
		require.ErrorContains(t, p.Check(), text)
	}
}

func TestScopes(t *testing.T) {
	p := &auth.Principal{Subject: "ann", Scopes: []string{"files:read"}}
	require.True(t, p.HasScope("files:read"))
	require.False(t, p.HasScope("files"))
	require.False(t, (*auth.Principal)(nil).HasScope("files:read"))
}
