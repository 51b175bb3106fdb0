package server

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Whoever looks a name up while it is replaced finds it, and the list has it.
func TestTableReplaceHasNoGap(t *testing.T) {
	table := table[int]{kind: ItemTool, changed: runtime.Gosched}
	if err := table.add("x", 0, nil); err != nil {
		t.Fatal(err)
	}
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
				if table.get("x") == nil || len(table.all()) != 1 {
					t.Error("there is none")
					return
				}
				runtime.Gosched()
			}
		})
	}
	for i := range 2000 {
		if err := table.replace("x", i, nil); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}

// A page is the same whether somebody has looked at each of its entries or not, however
// large it may be.
func TestTablePages(t *testing.T) {
	table := table[int]{kind: ItemTool, changed: func() {}}
	for i, name := range []string{"a", "b", "c"} {
		if err := table.add(name, i, nil); err != nil {
			t.Fatal(err)
		}
	}
	table.remove("b")
	for _, size := range []int{1, 2, 3, math.MaxInt} {
		for after := range uint64(5) {
			cursor := table.cursor(after)
			want, wantNext, err := table.page(cursor, size, func(string) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			got, next, err := table.page(cursor, size, nil)
			if err != nil || next != wantNext || !slices.Equal(got, want) {
				t.Errorf("%d after %d: %v, %q, %v, not %v, %q", size, after, got, next, err, want, wantNext)
			}
		}
	}
}
