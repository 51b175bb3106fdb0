package archtest

import (
	"fmt"
	"go/types"
	"testing"
)

// maxExported bounds the exported types and functions of a package: how many nouns and
// verbs somebody reads before he has seen them all. Constants, variables, fields and
// methods do not count.
var maxExported = map[string]int{
	"mcp":       140,
	"server":    90,
	"telemetry": 36, // more of what a source reports is in telemetry/state
}

// The public packages stay within their bounds.
func TestExportedNamesAreBounded(t *testing.T) {
	counted := map[string]bool{}
	for _, p := range publicPackages(t) {
		rel, _ := within(p.Path())
		limit, bounded := maxExported[rel]
		counted[rel] = true
		if bounded {
			n := exported(p)
			t.Logf("%s exports %d types and functions", rel, n)
			report(t, countFaults(rel, n, limit))
		}
	}
	for rel := range maxExported {
		if !counted[rel] {
			t.Errorf("%s has a bound, and is no public package", rel)
		}
	}
}

// exported counts the exported types and functions of a package.
func exported(p *types.Package) (n int) {
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		switch obj.(type) {
		case *types.TypeName, *types.Func:
			if obj.Exported() {
				n++
			}
		}
	}
	return n
}

func countFaults(rel string, n, limit int) []string {
	if n <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s exports %d types and functions, %d are allowed: see what can be left out, or be one", rel, n, limit)}
}

func TestCount(t *testing.T) {
	p := imported{}.check(t, module+"/public", `package public
type A struct{ F int }
type B = A
type c int
func D() {}
func E[P any](P) {}
func f() {}
func (A) M() {}
const G = 1
var H = f`)
	if got := exported(p); got != 4 {
		t.Errorf("got %d, want A, B, D and E", got)
	}
	if got := countFaults("public", 4, 4); got != nil {
		t.Errorf("got %q, want nothing", got)
	}
	if got := countFaults("public", 5, 4); len(got) != 1 {
		t.Errorf("got %q, want one fault", got)
	}
}
