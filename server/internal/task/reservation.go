package task

import "github.com/vitrine-mcp/vitrine/store"

// A reservation is the room in the ledger for a change that the store has not taken yet. Until it has, the ledger says what
// the store says. The zero value reserves nothing.
type reservation struct {
	task *keptTask
	rec  *store.TaskRecord // as the ledger had it
	size int               // as it was counted
}

// reserve makes room for a record that is about to be stored, or returns the error of the limit that has no room for it.
func (g *ledger) reserve(held *reservation, rec *store.TaskRecord) (made room, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.byID[rec.TaskID]
	if k == nil {
		return made, nil
	}
	size := k.sizeAs(rec)
	if made, err = g.fit(k, size); err == nil && size > k.size {
		*held = reservation{k, k.rec, k.size}
		g.resize(k, size)
	}
	return made, err
}

// release gives a reservation up. It does nothing if the ledger has noted a change of the task since.
func (g *ledger) release(held *reservation) {
	if held.task == nil {
		return
	}
	g.mu.Lock()
	if k := held.task; k.rec == held.rec {
		g.resize(k, min(k.size, held.size))
	}
	g.mu.Unlock()
	held.task = nil
}
