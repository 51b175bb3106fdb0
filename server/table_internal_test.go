package server

import (
	"runtime"
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
