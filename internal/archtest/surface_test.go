package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// publicPackages returns the packages of the module that users can import, as the compiler
// has exported them.
func publicPackages(t *testing.T) []*types.Package {
	goFiles(t)
	var public []string
	exports := map[string]string{}
	for _, p := range goJSON[listedPackage](t, "list", "-export", "-deps", "-json=ImportPath,Name,Export", "./...") {
		exports[p.ImportPath] = p.Export
		if p.public() {
			public = append(public, p.ImportPath)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var packages []*types.Package
	for _, path := range public {
		p, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// A listedPackage is what go list says about a package and its export data.
type listedPackage struct{ ImportPath, Name, Export string }

// public reports whether users can import a package. None is exempt: whatever they can
// import is held to the rules of public packages.
func (p listedPackage) public() bool {
	_, ours := within(p.ImportPath)
	return ours && p.Name != "main" && !internalPath(p.ImportPath)
}

func TestPublic(t *testing.T) {
	for _, c := range []struct {
		path, name string
		want       bool
	}{
		{module + "/store", "store", true},
		{module + "/service/console", "console", true},
		{module + "/cmd/vitrine", "main", false},
		{module + "/internal/session", "session", false},
		{module + "/server/internal/schema", "schema", false},
		{"net/http", "http", false},
	} {
		if got := (listedPackage{ImportPath: c.path, Name: c.name}).public(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.path, got, c.want)
		}
	}
}

// The exported identifiers of public packages name no type of an internal package, so that users
// can write down every type that they meet.
func TestSurfaces(t *testing.T) {
	found := map[string]bool{}
	for _, p := range publicPackages(t) {
		rel, _ := within(p.Path())
		found[rel] = true
		report(t, surfaceFaults(p))
	}
	for _, rel := range []string{"auth", "mcp", "middleware", "server", "service", "store", "telemetry", "transport"} {
		if !found[rel] {
			t.Errorf("%s was not looked at", rel)
		}
	}
}

// surfaceFaults returns one line for each exported identifier that names an internal type.
func surfaceFaults(p *types.Package) []string {
	s := surface{pkg: p, seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if ast.IsExported(name) {
			s.object(p.Scope().Lookup(name))
		}
	}
	slices.Sort(s.faults)
	return slices.Compact(s.faults)
}

// A surface walks what users of a package see.
type surface struct {
	pkg    *types.Package
	seen   map[types.Type]bool // named types of the package
	faults []string
}

func (s *surface) object(obj types.Object) {
	where := s.pkg.Name() + "." + obj.Name()
	if name, ok := obj.(*types.TypeName); ok && name.IsAlias() {
		s.typ(where+" is an alias and", types.Unalias(obj.Type()))
		return
	}
	s.typ(where, obj.Type())
}

// typ looks at a type that is written at a place.
func (s *surface) typ(where string, t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		s.named(where, t)
	case *types.Pointer:
		s.typ(where, t.Elem())
	case *types.Slice:
		s.typ(where, t.Elem())
	case *types.Array:
		s.typ(where, t.Elem())
	case *types.Chan:
		s.typ(where, t.Elem())
	case *types.Map:
		s.typ(where, t.Key())
		s.typ(where, t.Elem())
	case *types.Signature:
		s.tuple(where, t.Params())
		s.tuple(where, t.Results())
		s.parameters(where, t.TypeParams())
	case *types.Struct:
		s.fields(where, t)
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				s.typ(where+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			s.typ(where, e)
		}
	case *types.Union:
		for term := range t.Terms() {
			s.typ(where, term.Type())
		}
	}
}

func (s *surface) tuple(where string, tuple *types.Tuple) {
	for v := range tuple.Variables() {
		s.typ(where, v.Type())
	}
}

func (s *surface) parameters(where string, params *types.TypeParamList) {
	for p := range params.TypeParams() {
		s.typ(where, p.Constraint())
	}
}

// fields looks at the fields that users see, also those that a struct has from others.
func (s *surface) fields(where string, t *types.Struct) {
	for f := range t.Fields() {
		if f.Exported() {
			s.typ(where+"."+f.Name(), f.Type())
			continue
		}
		inner := types.Unalias(f.Type())
		if p, ok := inner.(*types.Pointer); ok {
			inner = types.Unalias(p.Elem())
		}
		if st, ok := inner.Underlying().(*types.Struct); ok && f.Embedded() {
			s.fields(where, st)
		}
	}
}

func (s *surface) named(where string, t *types.Named) {
	for arg := range t.TypeArgs().Types() {
		s.typ(where, arg)
	}
	pkg := t.Obj().Pkg()
	switch {
	case pkg == nil: // error, comparable
	case internalPath(pkg.Path()):
		s.faults = append(s.faults, fmt.Sprintf("%s names %s.%s: users cannot write that type down", where, pkg.Path(), t.Obj().Name()))
	case pkg.Path() == s.pkg.Path() && !s.seen[t.Origin()]:
		s.seen[t.Origin()] = true
		where = s.pkg.Name() + "." + t.Obj().Name()
		s.parameters(where, t.Origin().TypeParams())
		s.typ(where, t.Origin().Underlying())
		set := types.NewMethodSet(types.NewPointer(t.Origin()))
		for m := range set.Methods() { // also those that it has from others
			if m.Obj().Exported() {
				s.typ(where+"."+m.Obj().Name(), m.Obj().Type())
			}
		}
	}
}

// internalPath reports whether a package is one of the module that users cannot import.
func internalPath(path string) bool {
	rel, ours := within(path)
	return ours && slices.Contains(strings.Split(rel, "/"), "internal")
}

// go doc shows the fields and methods of every public type.
func TestShapes(t *testing.T) {
	files := goFiles(t)
	for name, text := range files {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || nested(name, files) || internalPath(module+"/"+path.Dir(name)) {
			continue
		}
		report(t, shapeFaults(t, name, text))
	}
}

// shapeFaults returns one line for each exported type that is defined by an internal one:
// "type T session.T" is a type of its own, but its documentation shows no fields.
func shapeFaults(t *testing.T, name string, text []byte) (faults []string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	hidden := map[string]string{} // internal packages by their names in the file
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		local := path.Base(target)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if internalPath(target) {
			hidden[local] = target
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() {
			return true
		}
		if from, ok := spec.Type.(*ast.SelectorExpr); ok {
			if of, ok := from.X.(*ast.Ident); ok && hidden[of.Name] != "" {
				faults = append(faults, fmt.Sprintf("%s: %s is defined by %s.%s: go doc does not show what it has",
					name, spec.Name.Name, hidden[of.Name], from.Sel.Name))
			}
		}
		return true
	})
	return faults
}

func TestShapeFaults(t *testing.T) {
	const header = "package public\nimport (\n\"" + module + "/internal/hidden\"\nh \"" + module + "/a/internal/b\"\n\"" + module + "/mcp\"\n)\n"
	for source, want := range map[string]string{
		"type T struct{ t hidden.T }":  "",
		"type t hidden.T":              "",
		"type T mcp.T":                 "",
		"type T hidden.T":              "a.go: T is defined by " + module + "/internal/hidden.T",
		"type T = hidden.T":            "a.go: T is defined by",
		"type T h.T":                   "a.go: T is defined by " + module + "/a/internal/b.T",
		"type (\nU int\nT hidden.T\n)": "a.go: T is defined by",
	} {
		got := shapeFaults(t, "a.go", []byte(header+source))
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s\ngot  %q\nwant %q", source, got, want)
		}
	}
}

// The rule finds each way in which an internal type can show.
func TestSurfaceFaults(t *testing.T) {
	for source, want := range map[string]string{
		"func F(int) error { return nil }":                                           "",
		"func f(hidden.T) {}":                                                        "",
		"type T struct{ t hidden.T }":                                                "",
		"type I interface{ f(hidden.T) }":                                            "",
		"func F() *hidden.T { return nil }":                                          "public.F names",
		"func F(f func(map[string][]hidden.T)) {}":                                   "public.F names",
		"var V = hidden.V":                                                           "public.V names",
		"const C = hidden.C":                                                         "public.C names",
		"type A = hidden.T":                                                          "public.A is an alias and names",
		"type a = hidden.T\nfunc F(a) {}":                                            "public.F names",
		"type T struct{ F chan hidden.T }":                                           "public.T.F names",
		"type T struct{ *hidden.T }":                                                 "public.T.T names",
		"type T struct{ inner }\ntype inner struct{ F hidden.T }":                    "public.T.F names",
		"type T int\nfunc (*T) M(hidden.T) {}":                                       "public.T.M names",
		"type T struct{ inner }\ntype inner struct{}\nfunc (inner) M(hidden.T) {}":   "public.T.M names",
		"type I interface{ M(hidden.T) }":                                            "public.I.M names",
		"type I interface{ hidden.I }":                                               "public.I names",
		"type G[P any] struct{ p P }\nfunc F() G[hidden.T] { return G[hidden.T]{} }": "public.F names",
		"func F[P hidden.I]() {}":                                                    "public.F names",
		"type t struct{}\nfunc (t) M(hidden.T) {}\nfunc F() t { return t{} }":        "public.t.M names",
	} {
		imports := imported{}
		imports.check(t, module+"/internal/hidden", "package hidden\ntype T struct{}\ntype I interface{ H() }\ntype N int\nvar V T\nconst C N = 1")
		p := imports.check(t, module+"/public", "package public\nimport \""+module+"/internal/hidden\"\nvar _ hidden.T\n"+source)
		got := surfaceFaults(p)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s\ngot  %q\nwant %q", source, got, want)
		}
	}
}

// imported are packages that were made up.
type imported map[string]*types.Package

func (i imported) Import(path string) (*types.Package, error) { return i[path], nil }

func (i imported) check(t *testing.T, path, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&types.Config{Importer: i}).Check(path, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	i[path] = p
	return p
}
