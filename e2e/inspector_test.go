package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const inspector = "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// inspections are the methods that the command line of the inspector has, but for those
// of extensions that we do not have.
var inspections = []struct {
	args  string // --method comes last: some options take all that follows
	check func(t *testing.T, r inspected)
}{
	{"--method tools/list", func(t *testing.T, r inspected) {
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Contains(names, "echo") {
			t.Errorf("%q", names)
		}
	}},
	{"--tool-arg text=seen --tool-name echo --method tools/call", func(t *testing.T, r inspected) {
		if string(r.StructuredContent) != "{\n    \"text\": \"seen\"\n  }" {
			t.Errorf("%+v %s", r, r.StructuredContent)
		}
	}},
	{"--method prompts/list", func(t *testing.T, r inspected) {
		if len(r.Prompts) < 4 {
			t.Errorf("%+v", r.Prompts)
		}
	}},
	{"--prompt-args arg1=eins arg2=zwei --prompt-name test_prompt_with_arguments --method prompts/get", func(t *testing.T, r inspected) {
		if m := r.Messages; len(m) == 0 || !strings.Contains(m[0].Content.Text, "eins") || !strings.Contains(m[0].Content.Text, "zwei") {
			t.Errorf("%+v", m)
		}
	}},
	{"--method resources/list", func(t *testing.T, r inspected) {
		if len(r.Resources) < 3 {
			t.Errorf("%+v", r.Resources)
		}
	}},
	{"--uri test://static-binary --method resources/read", func(t *testing.T, r inspected) {
		if len(r.Contents) != 1 || !isPNG(r.Contents[0].Blob) {
			t.Errorf("%+v", r.Contents)
		}
	}},
	{"--method resources/templates/list", func(t *testing.T, r inspected) {
		if len(r.ResourceTemplates) == 0 {
			t.Errorf("%+v", r)
		}
	}},
}

// inspected is the output of the inspector.
type inspected struct {
	result
	ServerInfo      struct{ Name string }
	ProtocolVersion string
}

// TestInspector uses the command line of the inspector, as scripts do.
func TestInspector(t *testing.T) {
	for _, c := range []struct{ era, transport, version string }{
		{"legacy", "http", legacyVersion},
		{"legacy", "stdio", legacyVersion},
		{"modern", "http", modernVersion},
		{"modern", "stdio", modernVersion},
		{"auto", "http", modernVersion},
		{"auto", "stdio", modernVersion},
	} {
		t.Run(c.era+"/"+c.transport, func(t *testing.T) {
			i := inspection{node: node(t, "e2e/inspector"), era: c.era, home: t.TempDir()}
			t.Parallel()
			p := everything(withArgs("--stdio"))
			i.target = append([]string{"--", p.path}, p.args...)
			if c.transport == "http" {
				i.target = []string{serveHTTP(t).mcp}
			}
			r, _ := i.run(t, 0, "--method initialize")
			if r.ServerInfo.Name != "everything" || r.ProtocolVersion != c.version {
				t.Errorf("initialize: %+v, want the version %s", r, c.version)
			}
			if c.era == "auto" {
				return // which is modern from here on
			}
			for _, method := range inspections {
				t.Run(lastField(method.args), func(t *testing.T) {
					r, _ := i.run(t, 0, method.args)
					method.check(t, r)
				})
			}
			const level = "--log-level warning --method logging/setLevel"
			if c.era == "legacy" {
				i.run(t, 0, level)
			} else if _, said := i.run(t, 1, level); !strings.Contains(said, "not supported by the negotiated protocol version") {
				t.Errorf("a method that the modern era does not have: %s", said)
			}
			const fault = "--prompt-name no-such-prompt --method prompts/get"
			if _, said := i.run(t, 1, fault); !strings.Contains(said, "no-such-prompt") {
				t.Errorf("an unknown prompt: %s", said)
			}
		})
	}
}

func lastField(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// An inspection is how to run the inspector.
type inspection struct {
	node, era, home string
	target          []string
}

// run runs the inspector once and returns its output, and its text about an error.
func (i *inspection) run(t *testing.T, status int, args string) (r inspected, said string) {
	t.Helper()
	all := append([]string{inspector, "--cli", "--protocol-era", i.era}, strings.Fields(args)...)
	p := start(t, program{path: i.node, args: append(all, i.target...), env: []string{"HOME=" + i.home, "NODE_COMPILE_CACHE=" + i.home}})
	p.stdin.Close()
	if got := p.exit(t).ExitStatus(); got != status {
		t.Fatalf("%s: the inspector ended with %d, want %d:\n%s\n%s", args, got, status, p.stdout, p.stderr)
	}
	p.stdout.drained(t)
	p.stderr.drained(t)
	if status != 0 {
		return r, p.stderr.text()
	}
	if err := json.Unmarshal([]byte(p.stdout.text()), &r); err != nil {
		t.Fatalf("%s: the inspector printed %s: %v", args, p.stdout, err)
	}
	return r, ""
}
