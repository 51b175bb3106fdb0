package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A setting that would be ignored is an error that names the setting it needs. With that one it is good.
func TestSettingsThatNeedOthers(t *testing.T) {
	load := func(args ...string) (Config, error) {
		o := newOptions([]Option{WithArgs(args), WithGetenv(func(string) string { return "" })})
		cfg, _, err := o.load(mcp.Implementation{Name: "testing", Version: "1"})
		return cfg, err
	}
	for _, c := range []struct{ setting, value, needs, with string }{
		{"tls-client-optional", "true", "tls-client-ca", "ca.pem"},
		{"auth-client-cert-scopes", "a", "auth-client-cert", "uri"},
		{"auth-proxy-tenant-header", "X-Tenant", "auth-proxy-header", "X-User"},
		{"auth-proxy-scopes-header", "X-Scopes", "auth-proxy-header", "X-User"},
		{"oauth-introspection-secret-file", "secret", "oauth-introspection-client", "me"},
		{"oauth-introspection-always", "true", "oauth-introspection-client", "me"},
		{"policy-dry-run", "true", "policy", "policy.yaml"},
		{"audit-max-size", "1", "audit-file", "audit.jsonl"},
		{"audit-max-files", "1", "audit-file", "audit.jsonl"},
		{"audit-key-file", "key", "audit-file", "audit.jsonl"},
		{"audit-strict", "true", "audit-file", "audit.jsonl"},
		{"store-readiness", "true", "store", "redis://localhost"},
	} {
		t.Run(c.setting, func(t *testing.T) {
			want := "service: --" + c.setting + " has no effect without --" + c.needs
			_, err := load("--" + c.setting + "=" + c.value)
			require.ErrorContains(t, err, want)

			with := []string{"--" + c.setting + "=" + c.value, "--" + c.needs + "=" + c.with}
			if c.needs == "oauth-introspection-client" {
				with = append(with, "--oauth-issuer=https://login.example.com")
			}
			cfg, err := load(with...)
			require.NoError(t, err)
			require.NoError(t, cfg.check(), "as a configuration in Go")
			if c.setting == "policy-dry-run" {
				cfg.Policy.File = ""
				require.ErrorContains(t, cfg.check(), want, "as a configuration in Go")
			}
		})
	}

	// What a setting may need is not known while some settings could not be read.
	_, err := load("--policy-dry-run", "--path=mcp")
	require.ErrorContains(t, err, "want a path")
	require.NotContains(t, err.Error(), "no effect")
	_, err = load()
	require.NoError(t, err, "defaults need nothing")
	_, err = load("--policy-dry-run", "--healthcheck=livez", "--admin-addr=off")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "no effect", "a health check may see a part of the settings")
	_, err = load("--audit-max-size=0", "--audit-max-files=0", "--policy-dry-run=false")
	require.NoError(t, err, "nor do they if they are written out")
}
