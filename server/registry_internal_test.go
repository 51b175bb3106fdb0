package server

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A name that is being replaced is always found, and always in the list.
func TestRegistryReplaceIsAtomic(t *testing.T) {
	items := registry[int]{kind: auth.KindTool, changed: func([]changedItem) { runtime.Gosched() }}
	put(t, &items, "x", 0)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if items.get("x") == nil || len(items.all()) != 1 {
					t.Error("there is none")
					return
				}
				runtime.Gosched()
			}
		})
	}
	for i := range 2000 {
		put(t, &items, "x", i)
	}
	close(done)
	readers.Wait()
}

// A page is the same with and without a view, for any page size.
func TestRegistryPages(t *testing.T) {
	items := registry[int]{kind: auth.KindTool, changed: func([]changedItem) {}}
	for i, name := range []string{"a", "b", "c"} {
		put(t, &items, name, i)
	}
	items.remove("b")
	for _, size := range []int{1, 2, 3, math.MaxInt} {
		for after := range uint64(5) {
			cursor := items.cursor(after)
			want, wantNext, err := items.page(cursor, size, func(*target) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			got, next, err := items.page(cursor, size, nil)
			if err != nil || next != wantNext || !slices.Equal(got, want) {
				t.Errorf("%d after %d: %v, %q, %v, not %v, %q", size, after, got, next, err, want, wantNext)
			}
		}
	}
}

func put[T comparable](t *testing.T, to *registry[T], name string, def T) (old *entry[T]) {
	t.Helper()
	old, _, err := to.put(name, def, &target{})
	if err != nil {
		t.Fatal(err)
	}
	return old
}

// A definition with the same JSON is no change, and the list keeps the old pointer, by which
// encoded pages are known. A definition that the caller has changed meanwhile, and a removed
// one, are changes.
func TestRegistryPutEqual(t *testing.T) {
	changes := 0
	items := registry[*mcp.Tool]{kind: auth.KindTool, changed: func([]changedItem) { changes++ }}
	meta := mcp.Meta{"example.com/k": 1}
	def := func(title string) *mcp.Tool { return &mcp.Tool{Name: "x", Title: title, Meta: meta} }
	first := def("a")
	for _, step := range []struct {
		def  *mcp.Tool
		want int
	}{{first, 1}, {def("a"), 1}, {def("b"), 2}, {def("b"), 2}, {def("a"), 3}} {
		put(t, &items, "x", step.def)
		if changes != step.want {
			t.Fatalf("%d changes, want %d", changes, step.want)
		}
	}
	kept := items.get("x").def
	target := items.get("x").target
	put(t, &items, "x", def("a"))
	if now := items.get("x"); now.def != kept || now.target == target || !items.holds([]*mcp.Tool{kept}) {
		t.Error("an equal definition takes the place of the handler and not of the definition")
	}
	meta["example.com/k"] = 2
	if put(t, &items, "x", def("a")); changes != 4 {
		t.Error("the definition's own map has changed")
	}
	items.remove("y", "z")
	if items.remove(); changes != 4 {
		t.Error("nothing was removed")
	}
	items.remove("x", "x")
	if put(t, &items, "x", def("a")) != nil || changes != 6 {
		t.Error("it was taken away and added")
	}
	meta["example.com/k"] = func() {}
	if _, _, err := items.put("x", def("a"), nil); err == nil || changes != 6 {
		t.Error("what has no JSON form was entered")
	}
}
