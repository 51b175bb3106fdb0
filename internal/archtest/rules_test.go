package archtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The rules are tested on made-up packages, so that each is seen failing.

// at makes import paths of paths relative to the module.
func at(rels ...string) []string {
	var list []string
	for _, rel := range rels {
		list = append(list, module+"/"+rel)
	}
	return list
}

func TestImportFaults(t *testing.T) {
	const otel, prom = "go.opentelemetry.io/otel/trace", "github.com/prometheus/client_golang/prometheus"
	for _, c := range []struct {
		from string
		pkg  pkg
		want string // part of the only fault; empty for none
	}{
		// Layers.
		{"cmd/vitrine", pkg{Imports: at("service", "server", "mcp")}, ""},
		{"service", pkg{Imports: at("server", "middleware", "transport", "telemetry", "internal/session", "internal/wire", "mcp")}, ""},
		{"server", pkg{Imports: at("service")}, "server (layer 4) imports service (layer 5)"},
		{"middleware", pkg{Imports: at("server")}, "lower layers"},
		{"transport", pkg{Imports: at("internal/session", "mcp")}, ""},
		{"transport", pkg{Imports: at("telemetry")}, "transport (layer 2) imports telemetry (layer 2)"},
		{"telemetry", pkg{Imports: at("transport")}, "lower layers"},
		{"internal/session", pkg{Imports: at("transport")}, "lower layers"},
		{"internal/wire", pkg{Imports: at("mcp")}, ""},
		{"mcp", pkg{Imports: at("internal/wire")}, "lower layers"},
		{"mcp", pkg{Imports: at("internal/session")}, "lower layers"},
		{"internal/observe", pkg{Imports: at("telemetry", "internal/session")}, ""},
		{"telemetry", pkg{Imports: at("internal/observe")}, "telemetry (layer 2) imports internal/observe (layer 2)"},
		{"telemetry/otlp", pkg{Imports: at("telemetry")}, ""},
		{"telemetry", pkg{Imports: at("telemetry/otlp")}, "telemetry (layer 2) imports telemetry/otlp (layer 2)"},

		// One area, several packages.
		{"server", pkg{Imports: at("server/internal/schema")}, ""},
		{"server/servertest", pkg{Imports: at("server", "transport")}, ""},
		{"server/internal/schema", pkg{Imports: at("service")}, "server/internal/schema (layer 4)"},
		{"serverless", pkg{}, "serverless is in no area"},

		// No area.
		{"internal/util", pkg{}, "internal/util is in no area"},
		{"", pkg{}, "is in no area"},

		// Dashboards.
		{"dashboards/gen", pkg{Imports: at("telemetry")}, ""},
		{"dashboards/gen", pkg{Imports: at("mcp")}, "dashboards/gen (layer 3) imports mcp"},
		{"service", pkg{Imports: at("dashboards")}, "service (layer 5) imports dashboards"},

		// Libraries.
		{"telemetry", pkg{Imports: []string{otel, prom, "net/http"}}, ""},
		{"server", pkg{Imports: []string{otel}}, "server may not import go.opentelemetry.io/"},
		{"middleware", pkg{Imports: []string{otel}}, "middleware may not import"},
		{"middleware", pkg{Deps: []string{otel}}, "middleware reaches go.opentelemetry.io/otel/trace through others"},
		{"middleware", pkg{Deps: []string{"google.golang.org/grpc/codes"}}, "middleware reaches google.golang.org/grpc/codes"},
		{"middleware", pkg{Imports: at("internal/wire")}, "middleware (layer 3) imports internal/wire"},
		{"middleware", pkg{Imports: append(at("mcp", "auth"), "net/http")}, ""},
		{"auth", pkg{Imports: at("mcp")}, ""},
		{"auth", pkg{Imports: at("internal/wire")}, "auth (layer 1) imports internal/wire"},
		{"auth", pkg{Deps: []string{"net/http"}}, "auth reaches net/http through others"},
		{"auth", pkg{Imports: at("auth/policy")}, "auth (layer 1) imports auth/policy (layer 4)"},
		{"auth/policy", pkg{Imports: append(at("mcp", "auth", "internal/wire"), "cel.dev/cel-go/cel")}, ""},
		{"auth/policy", pkg{Imports: at("internal/rates")}, "auth/policy (layer 4) imports internal/rates"},
		{"auth/policy", pkg{Deps: []string{"net/http"}}, "auth/policy reaches net/http through others"},
		{"server", pkg{Imports: at("auth/policy")}, "server (layer 4) imports auth/policy (layer 4)"},
		{"service", pkg{Imports: at("auth/policy")}, ""},
		{"store", pkg{Imports: append(at("mcp"), "context")}, ""},
		{"store", pkg{Imports: at("internal/session")}, "store (layer 1) imports internal/session (layer 1)"},
		{"store", pkg{Imports: at("auth")}, "store (layer 1) imports auth (layer 1)"},
		{"store", pkg{Imports: []string{otel}}, "store may not import go.opentelemetry.io/"},
		{"store", pkg{Deps: []string{"google.golang.org/grpc/codes"}}, "store reaches google.golang.org/grpc/codes through others"},
		{"internal/session", pkg{Imports: at("store", "auth", "internal/wire", "mcp")}, ""},
		{"transport", pkg{Imports: []string{prom}}, "transport may not import github.com/prometheus/"},
		{"service", pkg{Imports: []string{prom}}, "service may not import"},
		{"cmd/vitrine", pkg{Imports: []string{prom}}, "cmd may not import"},
		{"server", pkg{XTestImports: []string{otel}}, ""},
		{"telemetry", pkg{Deps: []string{"google.golang.org/grpc/codes"}}, "reaches google.golang.org/grpc/codes through others"},
		{"server", pkg{Deps: []string{"google.golang.org/grpc"}}, "server may not depend on google.golang.org/grpc"},
		{"telemetry/otlp", pkg{Deps: []string{"google.golang.org/grpc"}}, ""},
		{"service", pkg{Deps: []string{"google.golang.org/grpc"}}, ""},
		{"server", pkg{Deps: []string{otel, "net/http"}}, ""},
		{"internal/session", pkg{Imports: []string{"net"}}, ""},
		{"internal/session", pkg{Imports: []string{"net/http"}}, "internal/session may not import net/http"},
		{"internal/session", pkg{Imports: []string{"net/http"}, Deps: []string{"net/http"}}, "may not import net/http"},
		{"internal/session", pkg{Deps: []string{"net/http"}}, "reaches net/http through others"},
		{"internal/session", pkg{Deps: []string{otel}}, "reaches go.opentelemetry.io/otel/trace through others"},
		{"mcp", pkg{Imports: []string{"os"}}, "mcp may not import os"},
		{"mcp", pkg{Imports: []string{"fmt"}, Deps: []string{"os"}}, ""},
		{"mcp", pkg{Imports: []string{"net/url", "net/netip"}}, ""},
		{"internal/wire", pkg{Imports: []string{"net"}}, "internal/wire may not import net"},
		{"internal/wire", pkg{Deps: []string{"net"}}, "reaches net through others"},
		{"server", pkg{Imports: []string{"github.com/go-json-experiment/json/jsontext", "github.com/santhosh-tekuri/jsonschema/v6"}}, ""},
		{"server", pkg{Imports: []string{"github.com/santhosh-tekuri/jsonschema/v7"}}, "not on the list of libraries"},
		{"server", pkg{TestImports: []string{"github.com/mark3labs/mcp-go/mcp"}}, "not on the list of libraries"},
		{"server", pkg{Imports: []string{"golang.org/x/net/http2"}}, "not on the list of libraries"},

		// Tests and their helpers.
		{"transport", pkg{XTestImports: at("telemetry", "internal/needs", "internal/session")}, ""},
		{"transport", pkg{TestImports: at("middleware")}, "a test of transport (layer 2) imports middleware (layer 3)"},
		{"server", pkg{XTestImports: at("service")}, "a test of server (layer 4) imports service"},
		{"service", pkg{XTestImports: at("server/servertest", "transport", "mcp")}, ""},
		{"service", pkg{Imports: at("internal/needs")}, "which is for tests"},
		{"internal/needs", pkg{Imports: []string{"testing"}}, ""},
		{"internal/needs", pkg{Imports: at("mcp")}, "a helper for tests imports no area"},
		{"internal/archtest", pkg{TestImports: []string{"go/parser"}}, ""},
	} {
		c.pkg.ImportPath = strings.TrimSuffix(module+"/"+c.from, "/")
		got := importFaults([]pkg{c.pkg})
		switch {
		case c.want == "" && len(got) > 0, c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s %+v:\ngot  %q\nwant %q", c.from, c.pkg, got, c.want)
		}
	}
}

// Each exception in the table names areas that exist.
func TestAreas(t *testing.T) {
	known := func(rel string) bool {
		return slices.ContainsFunc(areas, func(r area) bool { return r.path == rel })
	}
	for i, r := range areas {
		for _, rel := range slices.Concat(r.also, r.only) {
			if !known(rel) {
				t.Errorf("%s may import %s, which is no area", r.path, rel)
			}
		}
		for _, other := range areas[i+1:] {
			if under(other.path, r.path) {
				t.Errorf("%s is never reached: %s, which holds it, stands before it", other.path, r.path)
			}
		}
	}
}

func TestModuleFaults(t *testing.T) {
	const good = `{"Path": "golang.org/x/sync"}, {"Path": "go.opentelemetry.io/otel/sdk"}, {"Path": "golang.org/x/net", "Indirect": true}`
	for _, c := range []struct{ text, want string }{
		{`{"Require": [` + good + `]}`, ""},
		{`{"Require": [` + good + `, {"Path": "golang.org/x/net"}]}`, "go.mod requires golang.org/x/net,"},
		{`{"Require": [{"Path": "github.com/modelcontextprotocol/go-sdk"}]}`, "belong into the modules e2e and bench"},
		{`{"Replace": [{"Old": {"Path": "a"}, "New": {"Path": "../a"}}]}`, "go.mod replaces a by ../a"},
		{`{"Tool": [{"Path": "honnef.co/go/tools/cmd/staticcheck"}]}`, "scripts/tools.sh"},
	} {
		var m modFile
		if err := json.Unmarshal([]byte(c.text), &m); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(moduleFaults(m), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestParsePackages(t *testing.T) {
	pkgs, err := parsePackages(map[string][]byte{
		"go.mod":             nil,
		"server/a_plan9.go":  []byte("//go:build plan9\n\npackage server\n\nimport (\n\t_ \"os\"\n\tx `net`\n)\n"),
		"server/a_test.go":   []byte("package server_test\n\nimport \"testing\"\n"),
		"e2e/go.mod":         nil,
		"e2e/deep/client.go": []byte("package deep\n\nimport \"example.com/peer\"\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(pkgs, func(a, b pkg) int { return len(b.Imports) - len(a.Imports) })
	if got, want := fmt.Sprint(pkgs), fmt.Sprint([]pkg{
		{ImportPath: module + "/server", Imports: []string{"os", "net"}},
		{ImportPath: module + "/server", TestImports: []string{"testing"}},
	}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := parsePackages(map[string][]byte{"a.go": []byte("pack age")}); err == nil {
		t.Error("a file that cannot be parsed passes")
	}
}

// The file rules read files.
func TestGoFiles(t *testing.T) {
	files := goFiles(t)
	for _, name := range []string{"go.mod", "internal/archtest/rules_test.go"} {
		if !bytes.Contains(files[name], []byte("module")) {
			t.Errorf("%s was not found", name)
		}
	}
}
