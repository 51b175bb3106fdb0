package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The protocol reserves for itself the error codes -32020 to -32099, and names with the
// prefix io.modelcontextprotocol or the like in _meta and among the extensions;
// JSON-RPC reserves -32768 to -32000. What the protocol has given a meaning may be used,
// and nothing may be made up. What has gone out of use, as -32042 has, is for the clients
// that still know it.
var (
	reservedCodes = map[int]string{
		-32700: "parse error", -32600: "invalid request", -32601: "method not found", -32602: "invalid params",
		-32603: "internal error", -32020: "header mismatch", -32021: "missing required client capability",
		-32022: "unsupported protocol version", -32002: "resource not found, legacy alone",
		-32042: "URL elicitation required, 2025-11-25 alone",
	}
	reservedNames = map[string]bool{
		"io.modelcontextprotocol/protocolVersion": true, "io.modelcontextprotocol/clientCapabilities": true,
		"io.modelcontextprotocol/clientInfo": true, "io.modelcontextprotocol/logLevel": true,
		"io.modelcontextprotocol/serverInfo": true, "io.modelcontextprotocol/subscriptionId": true,
		"io.modelcontextprotocol/tasks": true,
	}
	codeInText = regexp.MustCompile(`-32\d{3}\b`)
	nameInText = regexp.MustCompile(`(?:^|[^a-zA-Z0-9.-])([a-zA-Z][a-zA-Z0-9-]*\.(?:modelcontextprotocol|mcp)(?:\.[a-zA-Z0-9-]+)*/[a-zA-Z0-9._-]*)`)
)

// reservedFaults looks for reserved codes and names among the literals of a file:
// numbers, and what strings have in them.
func reservedFaults(name string, text []byte) (faults []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	fault := func(at ast.Node, format string, args ...any) {
		faults = append(faults, fset.Position(at.Pos()).String()+": "+fmt.Sprintf(format, args...))
	}
	code := func(at ast.Node, n int) {
		if n >= -32768 && n <= -32000 && reservedCodes[n] == "" {
			fault(at, "the code %d is reserved", n)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if lit, ok := n.X.(*ast.BasicLit); ok && n.Op == token.SUB && lit.Kind == token.INT {
				if v, err := strconv.ParseInt(lit.Value, 0, 32); err == nil {
					code(n, -int(v))
				}
			}
		case *ast.BasicLit:
			s, err := strconv.Unquote(n.Value)
			if err != nil || n.Kind != token.STRING {
				return true
			}
			for _, found := range codeInText.FindAllString(s, -1) {
				v, _ := strconv.Atoi(found) // the expression has checked it
				code(n, v)
			}
			for _, found := range nameInText.FindAllStringSubmatch(s, -1) {
				if !reservedNames[found[1]] {
					fault(n, "the name %s is reserved", found[1])
				}
			}
		}
		return true
	})
	return faults, nil
}

// served reports whether a file is a part of what users run: not of the tests, nor of
// the modules that test us from outside.
func served(name string, files map[string][]byte) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !nested(name, files)
}

func TestNothingReservedIsMadeUp(t *testing.T) {
	files := goFiles(t)
	for name, text := range files {
		if !served(name, files) {
			continue
		}
		faults, err := reservedFaults(name, text)
		if err != nil {
			t.Fatal(err)
		}
		report(t, faults)
	}
}

// The rule finds each fault.
func TestReservedFaults(t *testing.T) {
	for text, want := range map[string]string{
		`x = -32043`:                            "a.go:1:20: the code -32043 is reserved",
		`x = mcp.Code(-32_043)`:                 "the code -32043 is reserved",
		`x = -0x7D2B`:                           "the code -32043 is reserved",
		`x = "-32043"`:                          "the code -32043 is reserved",
		"x = `{\"code\":-32050,\"message\":1}`": "the code -32050 is reserved",
		`x = -32099`:                            "the code -32099 is reserved",
		`x = -32000`:                            "the code -32000 is reserved",
		`x = -32023`:                            "the code -32023 is reserved",
		`x, y = -32020, -32602`:                 "",
		`x = -31000`:                            "",
		`x = -32800`:                            "",
		`x = 32043`:                             "",
		`x = 1.5`:                               "",
		`x = y // -32043`:                       "",
		`x = "io.modelcontextprotocol/serverInfo"`:          "",
		`x = "io.modelcontextprotocol/"`:                    "the name io.modelcontextprotocol/ is reserved",
		`x = "{\"io.modelcontextprotocol/traceId\":7}"`:     "the name io.modelcontextprotocol/traceId is reserved",
		`x = "com.mcp.tools/x"`:                             "the name com.mcp.tools/x is reserved",
		`x = "com.example.mcp/x"`:                           "",
		`x = "https://modelcontextprotocol.io/spec"`:        "",
		`x = "https://vitrine.example/mcp"`:                 "",
		`x = "github.com/modelcontextprotocol/go-sdk/mcp/"`: "",
	} {
		faults, err := reservedFaults("a.go", []byte("package a; var "+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(faults, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if _, err := reservedFaults("a.go", []byte("pack age")); err == nil {
		t.Error("a file that cannot be parsed passes")
	}
}

// guessable are the packages whose numbers can be told beforehand: what must not be
// guessed, as the ids of sessions and tasks and the keys of states, is from crypto/rand.
// The ledger of the session core spreads its counters, which is no secret, and no more are
// the ids of traces and the pauses between tries.
func guessable(name string, imports []string) (faults []string) {
	for _, path := range imports {
		excepted := name == "internal/session/ledger.go" || name == "telemetry/ids.go" || name == "store/redisstore/pause.go"
		if strings.HasPrefix(path, "math/rand") && !excepted {
			faults = append(faults, name+" imports "+path+", whose numbers can be guessed")
		}
	}
	return faults
}

func TestRandomnessIsCryptographic(t *testing.T) {
	files := goFiles(t)
	for name, text := range files {
		if !served(name, files) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		var imports []string
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			imports = append(imports, path)
		}
		report(t, guessable(name, imports))
	}
}

// The rule finds each fault.
func TestGuessable(t *testing.T) {
	for _, c := range []struct {
		name, path string
		faults     int
	}{
		{"server/tasks.go", "math/rand/v2", 1}, {"transport/http.go", "math/rand", 1},
		{"server/tasks.go", "crypto/rand", 0}, {"internal/session/ledger.go", "math/rand/v2", 0},
		{"telemetry/ids.go", "math/rand/v2", 0}, {"telemetry/live.go", "math/rand/v2", 1},
	} {
		if got := guessable(c.name, []string{"fmt", c.path}); len(got) != c.faults {
			t.Errorf("%s imports %s: %q", c.name, c.path, got)
		}
	}
}
