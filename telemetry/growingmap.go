package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A growingMap is a map whose entries are never removed. Reads take no lock, because each write
// makes a new map. The zero value is an empty map. It is safe for concurrent use.
type growingMap[K comparable, V any] struct {
	mu  sync.Mutex // guards the writing
	all atomic.Pointer[map[K]V]
}

// load returns all entries. The caller must not change them.
func (g *growingMap[K, V]) load() map[K]V {
	if all := g.all.Load(); all != nil {
		return *all
	}
	return nil
}

// get returns the value of a key, making it on first use.
func (g *growingMap[K, V]) get(key K, create func() V) V {
	if v, known := g.load()[key]; known {
		return v
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.load()
	if v, known := old[key]; known {
		return v
	}
	v := create()
	grown := map[K]V{key: v}
	maps.Copy(grown, old)
	g.all.Store(&grown)
	return v
}
