package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// directed lists the packages whose files depend in nearly one direction, so that a reader can begin at the bottom.
var directed = []string{
	"internal/resume", "internal/session", "internal/stream", "server",
	"server/internal/ask", "server/internal/era", "server/internal/notify", "server/internal/task",
}

// mostUpward bounds the part of the references between the files of such a package, in percent, that run back up: it
// must be less. All references from one file to another count as one. Not all can be avoided: a session has requests,
// and a request has a session.
const mostUpward = 10

func TestFilesDependInOneDirection(t *testing.T) {
	goFiles(t)
	exports := map[string]string{}
	var packages []sourcePackage
	for _, p := range goJSON[sourcePackage](t, "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", "./...") {
		exports[p.ImportPath] = p.Export
		if rel, ours := within(p.ImportPath); ours && slices.Contains(directed, rel) {
			packages = append(packages, p)
		}
	}
	if len(packages) != len(directed) {
		t.Fatalf("%d of %d packages were found", len(packages), len(directed))
	}
	for _, p := range packages {
		refs, err := p.references(exports)
		if err != nil {
			t.Fatal(err)
		}
		up := refs.upward()
		t.Logf("%s: %d of %d references between files run back up", p.ImportPath, len(up), len(refs))
		report(t, directionFaults(p.ImportPath, len(refs), up))
	}
}

func directionFaults(path string, all int, up []reference) []string {
	if len(up) == 0 || 100*len(up) < mostUpward*all {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d of %d references between files run back up, and less than %d %% may: %v. "+
		"Move what both sides need to a file below them", path, len(up), all, mostUpward, up)}
}

// A sourcePackage is what go list says about a package and its files.
type sourcePackage struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// A reference says that a file names something that another one declares: a function, a method, a type, a constant or a
// variable. Fields do not count.
type reference struct{ from, to string }

func (r reference) String() string { return r.from + " to " + r.to }

type references map[reference]struct{}

// references returns those between the files of the package.
func (p sourcePackage) references(exports map[string]string) (references, error) {
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	self, err := config.Check(p.ImportPath, files, parsed, &info)
	if err != nil {
		return nil, err
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(files.Position(pos).Filename) }
	all := references{}
	for name, obj := range info.Uses {
		if obj.Pkg() != self || obj.Parent() != self.Scope() && !isMethod(obj) {
			continue
		}
		if r := (reference{fileOf(name.Pos()), fileOf(obj.Pos())}); r.from != r.to {
			all[r] = struct{}{}
		}
	}
	return all, nil
}

func isMethod(obj types.Object) bool {
	f, ok := obj.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

// upward returns the references that run back up when the files stand in the best order that it finds, as a reader
// would choose it: each file above what it names.
func (refs references) upward() (fewest []reference) {
	names := map[string]struct{}{}
	for r := range refs {
		names[r.from], names[r.to] = struct{}{}, struct{}{}
	}
	order := slices.Sorted(maps.Keys(names))
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 { // starts of the search, which ends at an order that no file can leave for a better place
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for refs.improve(order) {
		}
		if up := refs.against(order); fewest == nil || len(up) < len(fewest) {
			fewest = up
		}
	}
	slices.SortFunc(fewest, func(a, b reference) int { return slices.Compare([]string{a.from, a.to}, []string{b.from, b.to}) })
	return fewest
}

// improve moves each file to the place at which the fewest of its references run back up, and reports whether that has
// made them fewer.
func (refs references) improve(order []string) (better bool) {
	has := func(from, to string) int {
		if _, ok := refs[reference{from, to}]; ok {
			return 1
		}
		return 0
	}
	for _, file := range slices.Clone(order) {
		at := slices.Index(order, file)
		rest := slices.Delete(slices.Clone(order), at, at+1)
		up := 0 // with the file at the top
		for _, other := range rest {
			up += has(other, file)
		}
		now, least, place := up, up, 0
		for i, other := range rest {
			up += has(file, other) - has(other, file)
			if i+1 == at {
				now = up
			}
			if up < least {
				least, place = up, i+1
			}
		}
		if least < now {
			copy(order, slices.Insert(rest, place, file))
			better = true
		}
	}
	return better
}

// against returns the references from a file to one that stands above it.
func (refs references) against(order []string) (up []reference) {
	up = []reference{}
	for r := range refs {
		if slices.Index(order, r.from) > slices.Index(order, r.to) {
			up = append(up, r)
		}
	}
	return up
}

func TestUpward(t *testing.T) {
	for _, c := range []struct {
		what string
		refs []reference
		want int
	}{
		{"a chain", []reference{{"a", "b"}, {"b", "c"}, {"a", "c"}, {"c", "d"}}, 0},
		{"a circle", []reference{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "a"}}, 1},
		{"two that name each other", []reference{{"a", "b"}, {"b", "a"}}, 1},
		{"two circles with a file in common", []reference{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "b"}}, 2},
		{"one reference closes two circles", []reference{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"b", "d"}, {"d", "a"}}, 1},
	} {
		refs := references{}
		for _, r := range c.refs {
			refs[r] = struct{}{}
		}
		if up := refs.upward(); len(up) != c.want {
			t.Errorf("%s: %v run back up, want %d", c.what, up, c.want)
		}
	}
}

func TestReferences(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package p\n\ntype A struct{ field B }\n\nfunc (a A) do() int { a.field.called(); return a.field.number + limit }\n",
		"b.go": "package p\n\ntype B struct{ number int }\n\nfunc (B) called() {}\n",
		"c.go": "package p\n\nconst limit = 1\n\nfunc alone(b struct{ number int }) int { limit := b.number; return limit }\n",
		"d.go": "package p\n\nfunc byMethod(a interface{ do() int }) int { return a.do() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refs, err := sourcePackage{ImportPath: "p", Dir: dir, GoFiles: []string{"a.go", "b.go", "c.go", "d.go"}}.references(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (references{{"a.go", "b.go"}: {}, {"a.go", "c.go"}: {}}); !maps.Equal(refs, want) {
		t.Errorf("got %v, want %v", refs, want)
	}
}

func TestDirectionFaults(t *testing.T) {
	up := []reference{{"a.go", "b.go"}}
	if faults := directionFaults("p", 11, up); faults != nil {
		t.Errorf("1 of 11: %v", faults)
	}
	if faults := directionFaults("p", 10, up); len(faults) != 1 {
		t.Errorf("1 of 10: %v", faults)
	}
}
