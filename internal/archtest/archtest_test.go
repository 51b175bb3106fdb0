package archtest

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

const module = "github.com/vitrine-mcp/vitrine"

// An area is a folder and everything below it, except what an area before it in the table holds.
type area struct {
	path  string // relative to the module
	layer int

	also   []string // areas on its own layer that it may import
	only   []string // if not nil, the only areas that it may import
	sealed bool     // no other area may import it

	ban     []string // packages that it may not import; a trailing slash means all below
	banDeep []string // packages that it may not even reach through others
}

var (
	ioPackages   = []string{"os", "net", "net/http", "os/exec", "syscall"}
	network      = []string{"net", "net/http"}
	instruments  = []string{"go.opentelemetry.io/", "github.com/prometheus/"}
	sessionLimit = append([]string{"net/http"}, instruments...)
	grpc         = []string{"google.golang.org/grpc", "google.golang.org/grpc/"}
	collectors   = append(slices.Clip(grpc), instruments...)
)

var areas = []area{
	{path: "cmd", layer: 6, ban: instruments},
	{path: "examples", layer: 6}, // a user's code: it may bring a registry of its own
	{path: "deploy", layer: 6, ban: instruments},
	{path: "service", layer: 5, ban: instruments},
	{path: "middleware", layer: 3, only: []string{"mcp", "auth", "internal/jsonvalue", "internal/rates"}, banDeep: collectors},
	{path: "server/servertest", layer: 4, also: []string{"server"}, banDeep: grpc}, // its assertions show spans and metrics
	{path: "server", layer: 4, ban: instruments, banDeep: grpc},
	{path: "internal/adapt", layer: 3, also: []string{"middleware"}, sealed: true, ban: instruments},                        // for the modules in adapters/
	{path: "internal/adapttest", layer: 3, only: []string{"telemetry", "mcp", "auth", "auth/oauth", "audit"}, sealed: true}, // for their tests
	{path: "dashboards", layer: 3, only: []string{"telemetry"}, sealed: true, ban: instruments},
	{path: "internal/framed", layer: 3, ban: instruments},
	{path: "internal/streamable", layer: 3, ban: instruments},
	{path: "transport", layer: 2, ban: instruments},
	{path: "internal/replica", layer: 2, banDeep: sessionLimit},
	{path: "internal/observe", layer: 2, also: []string{"telemetry"}},
	{path: "internal/auditing", layer: 2, also: []string{"internal/observe", "telemetry"}},
	{path: "internal/session", layer: 1, also: []string{"auth", "store", "internal/rates", "internal/limits", "internal/share", "internal/stream", "internal/resume"}, banDeep: sessionLimit},
	{path: "internal/resume", layer: 1, also: []string{"store", "internal/limits", "internal/share", "internal/stream"}, banDeep: sessionLimit},
	{path: "internal/rates", layer: 1, only: []string{"mcp", "auth", "internal/share"}, banDeep: sessionLimit},
	{path: "internal/stream", layer: 1, also: []string{"internal/limits", "internal/share"}, banDeep: sessionLimit},
	{path: "internal/limits", layer: 1, only: []string{"internal/wire"}, banDeep: sessionLimit},
	{path: "internal/share", layer: 1, only: []string{"auth"}, banDeep: instruments},
	{path: "telemetry/otlp", layer: 2, also: []string{"telemetry"}}, // links gRPC for programs that import it
	{path: "telemetry", layer: 2, banDeep: grpc},
	{path: "internal/report", layer: 1, banDeep: instruments},
	{path: "internal/changes", layer: 1, also: []string{"auth"}, banDeep: sessionLimit},
	{path: "internal/forwarded", layer: 0, ban: []string{"os", "net", "net/http"}},
	{path: "internal/seal", layer: 0, also: []string{"mcp"}, banDeep: network},
	{path: "internal/reload", layer: 0, banDeep: network},
	{path: "internal/logline", layer: 0, ban: ioPackages, banDeep: network},
	{path: "internal/order", layer: 0, ban: ioPackages, banDeep: network},
	{path: "internal/jsonvalue", layer: 0, ban: ioPackages, banDeep: network},
	{path: "internal/wire", layer: 0, also: []string{"mcp", "internal/jsonvalue"}, ban: ioPackages, banDeep: network},
	{path: "audit/auditfile", layer: 2, only: []string{"audit"}, banDeep: collectors},
	{path: "audit/auditotlp", layer: 2, only: []string{"audit"}, banDeep: grpc},
	{path: "audit", layer: 1, only: []string{"auth", "mcp", "internal/logline"}, banDeep: append(slices.Clip(grpc), sessionLimit...)},
	{path: "auth/local", layer: 2, only: []string{"auth", "mcp", "internal/reload"}, banDeep: collectors},
	{path: "auth/oauth", layer: 2, only: []string{"auth", "mcp", "internal/jsonvalue", "internal/share"}, banDeep: collectors},
	{path: "auth/policy", layer: 4, only: []string{"mcp", "auth", "internal/jsonvalue", "internal/wire"}, banDeep: sessionLimit},
	{path: "auth", layer: 1, only: []string{"mcp"}, banDeep: sessionLimit},
	{path: "store/redisstore", layer: 2, only: []string{"store"}, banDeep: append(slices.Clip(grpc), sessionLimit...)},
	{path: "store/storetest", layer: 1, only: []string{"mcp", "store"}, banDeep: append(slices.Clip(grpc), sessionLimit...)},
	{path: "store", layer: 1, only: []string{"mcp"}, banDeep: append(slices.Clip(grpc), sessionLimit...)},
	{path: "mcp", layer: 0, ban: ioPackages, banDeep: network},
}

// helpers belong to no area: tests import them, production code does not, and they
// import no area.
var helpers = []string{"internal/needs", "internal/redistest", "internal/archtest", "internal/issuertest", "internal/ratiotest", "internal/mutanttest"}

// libraries are the modules that the framework and its tests may use. A trailing slash
// means all below.
var libraries = []string{
	"github.com/DeRuina/timberjack",    // rotates the files of audit/auditfile
	"github.com/MicahParks/jwkset",     // reads the keys of issuers
	"cel.dev/cel-go",                   // the expressions of policies
	"github.com/alicebob/miniredis/v2", // for tests of store/redisstore
	"github.com/go-json-experiment/json",
	"github.com/golang-jwt/jwt/v5", // verifies access tokens
	"github.com/google/jsonschema-go",
	"github.com/klauspost/compress", // has a compressor that needs little memory
	"github.com/prometheus/client_golang",
	"github.com/prometheus/client_model",
	"github.com/prometheus/common", // the exposition formats of client_golang
	"github.com/redis/go-redis/v9",
	"github.com/santhosh-tekuri/jsonschema/v6",
	"github.com/stretchr/testify",
	"github.com/yosida95/uritemplate/v3",
	"go.opentelemetry.io/",
	"go.uber.org/goleak",
	"go.yaml.in/yaml/v3",  // the rules and objectives of dashboards; testify reads YAML with it anyway
	"golang.org/x/crypto", // the AEAD with long nonces of internal/seal
	"golang.org/x/sync",
	"golang.org/x/sys",
	"google.golang.org/protobuf", // what native histograms and OTLP are written in
}

// A pkg is what go list says about one package.
type pkg struct {
	ImportPath   string
	Imports      []string
	Deps         []string // Imports, and what those reach
	TestImports  []string // of tests in the package
	XTestImports []string // of tests beside it
	Error        *struct{ Err string }
}

// under reports whether path is root or below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// listed returns the entry of a list that path falls under.
func listed(path string, list []string) (string, bool) {
	for _, entry := range list {
		if path == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry) {
			return entry, true
		}
	}
	return "", false
}

// within returns the path of a package relative to the module, "." for the module's
// own, and whether it belongs to the module.
func within(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func isHelper(rel string) bool {
	return slices.ContainsFunc(helpers, func(h string) bool { return under(rel, h) })
}

// areaOf returns the area of a package given relative to the module.
func areaOf(rel string) (area, bool) {
	for _, r := range areas {
		if under(rel, r.path) {
			return r, true
		}
	}
	return area{}, false
}

// mayImport reports whether production code of area a may import area b.
func mayImport(a, b area) bool {
	switch {
	case a.path == b.path:
		return true
	case b.sealed:
		return false
	case a.only != nil:
		return slices.Contains(a.only, b.path)
	}
	return b.layer < a.layer || slices.Contains(a.also, b.path)
}

// mayTest reports whether tests of area a may import area b.
func mayTest(a, b area) bool { return mayImport(a, b) || b.layer <= a.layer }

// importFaults checks packages against the import rule and the rules about libraries.
// It returns one line for each fault.
func importFaults(pkgs []pkg) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, p := range pkgs {
		rel, _ := within(p.ImportPath)
		here, placed := areaOf(rel)
		if !placed && !isHelper(rel) {
			fault("%s is in no area: place it in the table of internal/archtest", rel)
			continue
		}
		for _, path := range p.Imports {
			target, ours := within(path)
			there, known := areaOf(target)
			switch {
			case !ours: // a library
				if entry, bad := listed(path, slices.Concat(here.ban, here.banDeep)); bad {
					fault("%s imports %s, but %s may not import %s", rel, path, here.path, entry)
				}
			case isHelper(target) && !isHelper(rel):
				fault("%s imports %s, which is for tests", rel, target)
			case known && !placed:
				fault("%s imports %s, but a helper for tests imports no area", rel, target)
			case known && !mayImport(here, there):
				fault("%s (layer %d) imports %s (layer %d): an area imports only areas on lower layers, see internal/archtest",
					rel, here.layer, target, there.layer)
			}
		}
		for _, path := range p.Deps {
			if entry, bad := listed(path, here.banDeep); bad && !slices.Contains(p.Imports, path) {
				fault("%s reaches %s through others, but %s may not depend on %s", rel, path, here.path, entry)
			}
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			target, ours := within(path)
			if there, known := areaOf(target); ours && known && placed && !mayTest(here, there) {
				fault("a test of %s (layer %d) imports %s (layer %d): tests import no area on a higher layer",
					rel, here.layer, target, there.layer)
			}
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if _, ours := within(path); !ours && !standard(path) && !allowed(path) {
				fault("%s imports %s, of a module that is not on the list of libraries in internal/archtest", rel, path)
			}
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults) // a test inside a package and one beside it may share a fault
}

// standard reports whether a package belongs to the standard library: the first
// element of its path has no dot. "C" is cgo.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// allowed reports whether a package or module is on the list of libraries.
func allowed(path string) bool {
	return slices.ContainsFunc(libraries, func(l string) bool { return under(path, l) })
}

// A modFile is what go mod edit -json says about go.mod.
type modFile struct {
	Module  struct{ Path string }
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct{ Old, New struct{ Path string } }
	Tool    []struct{ Path string }
}

// moduleFaults checks what go.mod asks for.
func moduleFaults(m modFile) []string {
	var faults []string
	for _, r := range m.Require {
		if !r.Indirect && !allowed(r.Path) {
			faults = append(faults, fmt.Sprintf("go.mod requires %s, which is not on the list of libraries in internal/archtest: "+
				"tools, peers and test clients belong into the modules e2e and bench", r.Path))
		}
	}
	for _, r := range m.Replace {
		faults = append(faults, fmt.Sprintf("go.mod replaces %s by %s, but a replacement does not reach those who import this module", r.Old.Path, r.New.Path))
	}
	for _, t := range m.Tool {
		faults = append(faults, fmt.Sprintf("go.mod names the tool %s, whose requirements would become the framework's: install it in scripts/tools.sh", t.Path))
	}
	return faults
}

// goJSON runs the go command in the root of the module and decodes the JSON values
// that it prints.
func goJSON[T any](t *testing.T, args ...string) []T {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = moduleRoot(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	var values []T
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var value T
		if err := dec.Decode(&value); errors.Is(err, io.EOF) {
			return values
		} else if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		values = append(values, value)
	}
}

// parsePackages reads the imports of the root module from its files. go list says
// more, but nothing about files for other systems and under other build tags.
func parsePackages(files map[string][]byte) ([]pkg, error) {
	var pkgs []pkg
	var faults []error
	for name, text := range files {
		if path.Ext(name) != ".go" || nested(name, files) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		p := pkg{ImportPath: path.Join(module, path.Dir(name))}
		for _, spec := range file.Imports {
			target, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			if strings.HasSuffix(name, "_test.go") {
				p.TestImports = append(p.TestImports, target)
			} else {
				p.Imports = append(p.Imports, target)
			}
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, errors.Join(faults...)
}

// nested reports whether a file belongs to a module below the root module.
func nested(name string, files map[string][]byte) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := files[dir+"/go.mod"]; ok {
			return true
		}
	}
	return false
}

// report fails the test once for each fault.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

func TestImports(t *testing.T) {
	files := goFiles(t)
	pkgs := goJSON[pkg](t, "list", "-e", "-json=ImportPath,Imports,Deps,TestImports,XTestImports,Error", "./...")
	if len(pkgs) < 2 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	for _, p := range pkgs {
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
	}
	parsed, err := parsePackages(files)
	if err != nil {
		t.Error(err)
	}
	report(t, importFaults(append(pkgs, parsed...)))
}

// The program, built as the Dockerfile says, calls no methods by names which it reads. If it did, the
// linker could leave out no method.
func TestUncalledMethodsAreLeftOut(t *testing.T) {
	if runtime.GOOS != "linux" {
		needs.Skip(t, "internal/archtest/uncalled", "programs have other formats elsewhere")
	}
	needs.Long(t, "internal/archtest/uncalled") // links the program
	goFiles(t)
	program := filepath.Join(t.TempDir(), "vitrine")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-o", program, "./cmd/vitrine")
	cmd.Dir, cmd.Env = moduleRoot(t), append(os.Environ(), "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range symbols {
		// A package that is only imported, as cel-go imports text/template, does no harm.
		switch {
		case strings.HasPrefix(s.Name, "text/template.(*state)"), strings.HasPrefix(s.Name, "net/rpc.(*Server)"):
			t.Errorf("%s is linked: the program becomes a fifth larger, in the file and in memory", s.Name)
		case s.Name == "main.main":
			found++
		}
	}
	if found != 1 {
		t.Errorf("main.main was found %d times: are the symbols read correctly?", found)
	}
}

func TestModule(t *testing.T) {
	goFiles(t)
	mod := goJSON[modFile](t, "mod", "edit", "-json")[0]
	if mod.Module.Path != module {
		t.Errorf("the module is %s, this package takes it for %s", mod.Module.Path, module)
	}
	report(t, moduleFaults(mod))
}
