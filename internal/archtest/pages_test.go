package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	// pagePath is a path in backticks, such as `mcp/reason.go` or `internal/wire/`.
	pagePath = regexp.MustCompile("`([a-z0-9_]+(?:/[A-Za-z0-9_.-]+)+)/?`")
	// pageDeclarations are a file and what it declares, as in `mcp/cause.go` (`Cause`, `CancelError.Error`).
	pageDeclarations = regexp.MustCompile("`([a-z0-9_/.]+\\.go)` \\((`[A-Za-z0-9_.]+`(?:, `[A-Za-z0-9_.]+`)*)\\)")
	// pageLink is a link, of which the target is captured.
	pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// pageTest is the name of a test on a page, testFunction its declaration.
	pageTest     = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]+`)
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]+)\(`)
	pageHeading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codeFence    = regexp.MustCompile("(?ms)^```.*?^```$")
)

// methodNames are methods of MCP that look like paths of this module.
var methodNames = []string{"server/discover"}

// pageFaults checks what a page names: paths below the folders of the module, declarations
// of files, tests, and targets of links. pages has all pages by their path.
func pageFaults(page string, pages, files map[string][]byte, tests []string, root fs.FS) (faults []string) {
	text := codeFence.ReplaceAllString(string(pages[page]), "")
	fault := func(format string, args ...any) { faults = append(faults, page+": "+fmt.Sprintf(format, args...)) }
	exists := func(name string) bool {
		_, err := fs.Stat(root, name)
		return err == nil
	}
	for _, m := range pagePath.FindAllStringSubmatch(text, -1) {
		top, _, _ := strings.Cut(m[1], "/")
		if exists(top) && !strings.Contains(m[1], ".Test") && !slices.Contains(methodNames, m[1]) && !exists(m[1]) {
			fault("there is no %s", m[1])
		}
	}
	for _, m := range pageDeclarations.FindAllStringSubmatch(text, -1) {
		declared := declarations(files[m[1]])
		for name := range strings.SplitSeq(m[2], ", ") {
			if name = strings.Trim(name, "`"); !slices.Contains(declared, name) {
				fault("%s does not declare %s", m[1], name)
			}
		}
	}
	for _, name := range pageTest.FindAllString(text, -1) {
		if !slices.Contains(tests, name) {
			fault("there is no test %s", name)
		}
	}
	for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		target, anchor, _ := strings.Cut(m[1], "#")
		name := page
		if target != "" {
			name = path.Join(path.Dir(page), target)
		}
		switch other, known := pages[name]; {
		case !exists(name):
			fault("the link to %s leads nowhere", m[1])
		case anchor != "" && known && !slices.Contains(anchors(other), anchor):
			fault("%s has no heading for the link to %s", name, m[1])
		}
	}
	return faults
}

// declarations returns the names that a file declares; a method is Type.Method.
func declarations(source []byte) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, ident := range spec.Names {
						names = append(names, ident.Name)
					}
				}
			}
		}
	}
	return names
}

// testFunctions returns the names of the tests, benchmarks and fuzz targets in files.
func testFunctions(files map[string][]byte) (names []string) {
	for file, source := range files {
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range testFunction.FindAllSubmatch(source, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	return names
}

// receiver returns the type of a method's receiver and a dot, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if ident, ok := t.(*ast.Ident); ok {
		return ident.Name + "."
	}
	return ""
}

// anchors returns what Markdown renderers make of the headings of a page.
func anchors(page []byte) (all []string) {
	for _, title := range pageHeading.FindAllStringSubmatch(string(page), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(title[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// TestPagesNameWhatExists fails when a page names a file, a declaration, a test or a heading that does not exist.
func TestPagesNameWhatExists(t *testing.T) {
	pages, files := markdown(t), goFiles(t)
	if len(pages) < 20 {
		t.Errorf("only %d pages found: is the repository read correctly?", len(pages))
	}
	tests := testFunctions(files)
	for page := range pages {
		report(t, pageFaults(page, pages, files, tests, os.DirFS(moduleRoot(t))))
	}
}

// The rule finds each fault.
func TestPageFaults(t *testing.T) {
	files := map[string][]byte{"internal/a/b.go": []byte(
		"package a\n\ntype T[K any] struct{}\n\nfunc (*T[K]) M() {}\n\nfunc F() {}\n\nconst C, D = 1, 2\n")}
	files["internal/a/b_test.go"] = []byte("package a\n\nfunc TestFound(t *testing.T) {}\n")
	root := fstest.MapFS{"internal/a/b.go": {}, "docs/x.md": {}, "docs/y.md": {}}
	for text, want := range map[string]int{
		"`internal/a/b.go`, `internal/a`, `internal/a/`, `tools/call`": 0,
		"`internal/a/c.go`": 1,
		"`internal/b/`":     1,
		"`internal/a.TestFound/x`, `b.go`, `server/discover`":               0,
		"`internal/a/b.go` (`T`, `T.M`, `F`, `C`, `D`)":                     0,
		"`internal/a.TestFound`, TestFound, `Test`":                         0,
		"BenchmarkLost, `TestLost/x`":                                       2,
		"`internal/a/b.go` (`M`)":                                           1,
		"`internal/a/b.go` (`F`, `G`, `T.F`)":                               2,
		"```\n`internal/a/c.go`\n```\n":                                     0,
		"[y](y.md), [a](../internal/a), [u](https://example.org/none#none)": 0,
		"[z](z.md)":                     1,
		"[y](y.md#one-two), [x](#here)": 0,
		"[y](y.md#two), [x](#there)":    2,
	} {
		pages := map[string][]byte{"docs/x.md": []byte("# Here\n\n" + text), "docs/y.md": []byte("## One, `two`\n")}
		if faults := pageFaults("docs/x.md", pages, files, testFunctions(files), root); len(faults) != want {
			t.Errorf("%q: %q", text, faults)
		}
	}
}
