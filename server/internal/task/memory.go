package task

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

// memory is the store.TaskStore in memory. Its ledger has the records.
type memory struct {
	ledger
	changed func(*store.TaskRecord) // set by Watch, before any other call
}

func newMemory(limits func() limits.Limits, origin func(*store.TaskRecord) origin, reached func(string)) *memory {
	return &memory{newLedger(limits, origin, reached, func(rec *store.TaskRecord) *store.TaskRecord { return rec }), func(*store.TaskRecord) {}}
}

// Watch implements store.TaskStore.
func (m *memory) Watch(changed func(*store.TaskRecord)) { m.changed = changed }

// Create implements store.TaskStore.
func (m *memory) Create(_ context.Context, rec *store.TaskRecord) error {
	r, err := m.enter(rec)
	m.report(r)
	return err
}

// Load implements store.TaskStore.
func (m *memory) Load(_ context.Context, id string) (*store.TaskRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(id)
	if k == nil {
		return nil, store.ErrNoTask
	}
	return k.rec, nil
}

// Update implements store.TaskStore.
func (m *memory) Update(_ context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	m.mu.Lock()
	rec, r, err := m.update(id, change)
	m.mu.Unlock()
	m.report(r)
	if err != nil {
		return nil, err
	}
	m.changed(rec)
	return rec, nil
}

// update is Update. The caller must hold m.mu.
func (m *memory) update(id string, change func(*store.TaskRecord) error) (rec *store.TaskRecord, r room, err error) {
	k := m.find(id)
	if k == nil {
		return nil, r, store.ErrNoTask
	}
	rec = k.rec.Clone()
	if err := change(rec); err != nil {
		return nil, r, err
	}
	r, err = m.put(k, rec)
	return rec, r, err
}
