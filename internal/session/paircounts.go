package session

import "sync"

// maxPairs bounds how many pairs of labels are told apart, maxLabelText the bytes of a label that
// the program makes up. What is more counts as otherLabel.
const (
	maxPairs     = 64
	maxLabelText = 64
	otherLabel   = "_OTHER"
)

// pairCounts counts pairs of labels. Their number is bounded, because the program may make up a
// label for each request. The zero value is empty.
type pairCounts struct {
	mu     sync.Mutex
	counts map[[2]string]uint64
}

// add counts the pair of a and b. If there are too many pairs it counts otherLabel and otherB.
func (t *pairCounts) add(a, b, otherB string) {
	key := [2]string{a, b}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[[2]string]uint64{}
	}
	if _, known := t.counts[key]; !known && len(t.counts) >= maxPairs {
		key = [2]string{otherLabel, otherB}
	}
	t.counts[key]++
}

func (t *pairCounts) each(f func(a, b string, n uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, n := range t.counts {
		f(key[0], key[1], n)
	}
}
