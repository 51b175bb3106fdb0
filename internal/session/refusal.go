package session

import (
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A RefusedCounter counts refusals: why, and by whom.
type RefusedCounter struct {
	Reason, By string
	Count      uint64
}

// refusedCounts counts refusals by reason and refuser.
type refusedCounts struct{ pairs pairCounts }

func (t *refusedCounts) add(r *mcp.Refusal) {
	t.pairs.add(logline.Printable(r.Reason, maxLabelText), logline.Printable(r.By, maxLabelText), otherLabel)
}

func (t *refusedCounts) list() (all []RefusedCounter) {
	t.pairs.each(func(reason, by string, n uint64) { all = append(all, RefusedCounter{reason, by, n}) })
	return all
}
