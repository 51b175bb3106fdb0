package telemetry

import (
	"strings"
	"sync"
)

// maxInterned bounds the texts of a table.
const maxInterned = 1024

// interned is a table of texts that many requests have, such as names of clients. Requests with equal texts
// share one copy. The plain version is a copy for each record, with which a request that is kept makes
// more objects (BenchmarkRing/kept). A full table begins anew, so that texts that nobody sends any more do not stay in it.
type interned struct {
	mu    sync.Mutex // guards texts
	texts map[string]string
}

// of returns the copy of a text.
func (i *interned) of(text string) string {
	if text == "" {
		return ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.texts[text]; ok {
		return known
	}
	if i.texts == nil || len(i.texts) >= maxInterned {
		i.texts = map[string]string{}
	}
	text = strings.Clone(text)
	i.texts[text] = text
	return text
}
