package check

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// chartSettings are the settings with values of their own in the chart.
var chartSettings = []string{
	"addr", "admin-addr", "stdio", "path", "allowed-hosts", "allowed-origins", "state-keys-file", "store", "admin-token-file",
	"oauth-issuer", "oauth-resource", "oauth-scopes", "oauth-introspection-client", "oauth-introspection-secret-file",
	"tls-cert", "tls-key", "tls-client-ca", "policy", "policy-dry-run",
	"audit-file", "audit-max-size", "audit-max-files", "audit-key-file", "audit-strict",
	"shutdown-delay", "drain-timeout", "cleanup-grace", "hook-grace", "linger-timeout", "flush-timeout",
}

var (
	flagLine = regexp.MustCompile(`(?m)^  --([a-z0-9-]+)`)
	envName  = regexp.MustCompile(`\bVITRINE_[A-Z0-9_]+`)
)

// help returns the help text of package service, which lists all its settings.
func help() (string, error) {
	var out bytes.Buffer
	err := service.Run(context.Background(), server.New("help", "1"), service.WithArgs([]string{"--help"}),
		service.WithGetenv(func(string) string { return "" }), service.WithStdout(&out))
	return out.String(), err
}

// freeSettings returns the names of the settings that the chart passes on as they are.
func freeSettings() (names []string, err error) {
	text, err := help()
	if err != nil {
		return nil, err
	}
	all := submatches(flagLine, text)
	for _, name := range chartSettings {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("the server has no setting %s", name)
		}
	}
	for _, name := range all {
		if name != "help" && name != "version" && name != "healthcheck" && name != "check-config" && !slices.Contains(chartSettings, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// environment returns the names of the environment variables of package service.
func environment() ([]string, error) {
	text, err := help()
	return envName.FindAllString(text, -1), err
}

func submatches(expr *regexp.Regexp, text string) (all []string) {
	for _, m := range expr.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
