package archtest

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// Every public package has an example that runs.
func TestPublicPackagesHaveExamples(t *testing.T) {
	files := goFiles(t)
	found := 0
	for _, p := range goJSON[listedPackage](t, "list", "-json=ImportPath,Name", "./...") {
		rel, _ := within(p.ImportPath)
		if here, placed := areaOf(rel); !p.public() || !placed || here.sealed {
			continue // a sealed area is for commands of its own
		}
		found++
		runs, err := runningExamples(rel, files)
		switch {
		case err != nil:
			t.Error(err)
		case len(runs) == 0:
			t.Errorf("%s has no example that runs: write one, with an Output comment", rel)
		}
	}
	if found < 10 {
		t.Errorf("%d public packages were found", found)
	}
}

// runningExamples returns the names of a package's examples that have an Output comment;
// go test runs no others.
func runningExamples(rel string, files map[string][]byte) (names []string, err error) {
	for name, text := range files {
		if path.Dir(name) != rel || !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, e := range doc.Examples(file) {
			if e.Output != "" || e.EmptyOutput {
				names = append(names, e.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// The rule distinguishes examples that run from others.
func TestRunningExamples(t *testing.T) {
	files := map[string][]byte{
		"p/x_test.go":   []byte("package p_test\nfunc ExampleA() {\n\t// Output: 1\n}\nfunc ExampleB() {}\nfunc ExampleC() {\n\t// Output:\n}\n"),
		"p/x.go":        []byte("package p\nfunc ExampleD() {\n\t// Output: 1\n}\n"),
		"p/q/x_test.go": []byte("package q_test\nfunc ExampleE() {\n\t// Output: 1\n}\n"),
	}
	names, err := runningExamples("p", files)
	if err != nil || !slices.Equal(names, []string{"A", "C"}) {
		t.Errorf("got %q, %v", names, err)
	}
}
