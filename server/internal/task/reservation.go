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
func (g *ledger) reserve(rec *store.TaskRecord) (held reservation, made room, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.find(rec.TaskID)
	if k == nil || takenOver(rec, k.rec.Runs, k.rec.Replica) || k.outdates(rec) {
		return held, made, nil
	}
	size := k.sizeAs(rec)
	if made, err = g.fit(k, size); err == nil && size > k.size {
		held = reservation{k, k.rec, k.size}
		g.resize(k, size)
	}
	return held, made, err
}

// release gives a reservation up. It does nothing if the ledger has noted a change of the task since.
func (g *ledger) release(held *reservation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := held.task; k != nil && g.byID[held.rec.TaskID] == k && k.rec == held.rec {
		g.resize(k, min(k.size, held.size))
	}
	*held = reservation{}
}
