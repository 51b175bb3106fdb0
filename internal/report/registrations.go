package report

import (
	"cmp"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Registration counts the changes of one item of a server, or of its policies, since the start.
type Registration struct {
	Kind     string    `json:"kind"` // tool, prompt, resource, resource template, policies
	Name     string    `json:"name"`
	Added    uint64    `json:"added"`    // after it was removed
	Replaced uint64    `json:"replaced"` // also by an equal definition
	Equal    uint64    `json:"equal"`    // of them by an equal one: clients are not told
	Removed  uint64    `json:"removed"`
	Updated  uint64    `json:"updated,omitzero"` // how often the program has said that the resource has changed, if there may be subscribers
	Last     time.Time `json:"last"`
	Place    string    `json:"place,omitempty"` // the file and line that has made the last change
}

func (r *Registration) changes() uint64 { return r.Replaced + r.Removed + r.Updated }

// maxRegistrations bounds the items of a page.
const maxRegistrations = 20

// MostChanged sorts items, the most changed first, and cuts the list.
func MostChanged(rows []Registration) []Registration {
	order.By(rows, func(a, b *Registration) bool {
		return cmp.Or(cmp.Compare(b.changes(), a.changes()), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) < 0
	})
	return rows[:min(len(rows), maxRegistrations)]
}
