package telemetry

import (
	"slices"
	"sync"
)

// maxBoundedNames is how many names a label of the program's own names has.
const maxBoundedNames = 64

// boundedNames are the names of the program that are values of a label. The first 64 are known, and all
// others are "_OTHER". The zero value is ready to use. It is safe for concurrent use.
type boundedNames struct {
	mu    sync.Mutex // guards known
	known []string
}

// label returns the value of the label for a name.
func (b *boundedNames) label(name string) string {
	if name == "" {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.known, name) {
		if len(b.known) >= maxBoundedNames {
			return other
		}
		b.known = append(b.known, name)
	}
	return name
}
