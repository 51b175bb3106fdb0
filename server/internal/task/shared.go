package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// shared is the store.TaskStore in the values that replicas share. Its ledger bounds what this replica has
// created; a record that it gives up is deleted. Records that other replicas create are theirs to bound.
type shared struct {
	ledger
	link    Link
	values  store.Values
	lease   lease
	search  *search
	unsaved unsaved
	changed func(*store.TaskRecord) // set by Watch, before any other call
	here    func(id string) bool    // reports whether the handler of a task runs in this process
}

func newShared(link Link, limits func() limits.Limits, origin func(*store.TaskRecord) origin, reached func(string)) *shared {
	return &shared{
		ledger: newLedger(limits, origin, reached, stub), link: link, values: link.TaskValues(), lease: lease{link: link, values: link.LeaseValues()},
		search: newSearch(link.LeaseValues(), link.Replica()), changed: func(*store.TaskRecord) {},
	}
}

// stub returns what the ledger needs of a record, which is in the store.
func stub(rec *store.TaskRecord) *store.TaskRecord {
	return &store.TaskRecord{
		Task:     mcp.Task{TaskID: rec.TaskID, Status: rec.Status, CreatedAt: rec.CreatedAt, TTL: rec.TTL},
		Revision: rec.Revision, Expires: rec.Expires, Replica: rec.Replica, Runs: rec.Runs,
	}
}

// Watch implements store.TaskStore.
func (s *shared) Watch(changed func(*store.TaskRecord)) { s.changed = changed }

// Create implements store.TaskStore.
func (s *shared) Create(ctx context.Context, rec *store.TaskRecord) error {
	raw, err := encodeRecord(rec)
	if err != nil {
		return err
	}
	if err := s.lease.hold(ctx); err != nil {
		return errors.Join(errAway, err)
	}
	made, err := s.enter(rec)
	if err == nil {
		var claimed bool
		switch claimed, err = s.values.Claim(ctx, recordKey(rec.TaskID), raw, time.Until(rec.Expires)); {
		case err != nil:
			err = errors.Join(errAway, err)
		case !claimed:
			err = fmt.Errorf("server: task %s exists", taskName(rec.TaskID))
		}
		if err != nil {
			s.drop(rec.TaskID)
		}
	}
	s.discard(ctx, made)
	return err
}

// Load implements store.TaskStore.
func (s *shared) Load(ctx context.Context, id string) (*store.TaskRecord, error) {
	raw, err := s.values.Get(ctx, recordKey(id))
	switch {
	case errors.Is(err, store.ErrNoValue):
		s.lose(id, true)
		return nil, store.ErrNoTask
	case err != nil:
		return nil, errors.Join(errAway, err)
	}
	return decodeRecord(raw)
}

// Update implements store.TaskStore.
func (s *shared) Update(ctx context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	var now *store.TaskRecord // the record as it is in the store after the call, if that is known
	var own error             // of the change
	var made room
	var held reservation
	defer s.release(&held)
	err := s.values.Update(ctx, recordKey(id), func(old []byte) (raw []byte, life time.Duration, err error) {
		now = nil
		defer func() { own = err }()
		s.release(&held) // others have changed the record meanwhile
		if old == nil {
			return nil, 0, store.ErrNoTask
		}
		next, err := decodeRecord(old)
		if err != nil {
			return nil, 0, err
		}
		if err := change(next); err != nil {
			if errors.Is(err, errTaskOver) || errors.Is(err, errTakenOver) {
				now = next // another replica has ended it, or runs it, and perhaps nobody has told us
			}
			return nil, 0, err
		}
		if raw, err = encodeRecord(next); err != nil {
			return nil, 0, err
		}
		r, err := s.reserve(&held, next)
		if made.add(r); err != nil {
			return nil, 0, err
		}
		now = next
		return raw, time.Until(next.Expires), nil
	})
	unsure := own == nil && err != nil
	if now != nil && !unsure {
		s.discard(ctx, s.note(now))
	}
	s.discard(ctx, made)
	if own == nil && now != nil { // also after an error the store may have it
		s.link.TellTask(id)
	}
	switch {
	case unsure:
		return nil, errors.Join(errAway, err)
	case errors.Is(own, store.ErrNoTask):
		s.lose(id, true)
	case own == nil, now != nil:
		s.changed(now)
	}
	if own != nil {
		now = nil
	}
	return now, own
}

// discard counts the limits that were reached, and deletes the records that the ledger has given up. One that cannot be
// deleted expires.
func (s *shared) discard(ctx context.Context, r room) {
	s.report(r)
	for _, gone := range r.gone {
		late := s.unsaved.drop(gone.TaskID)
		err := s.values.Update(ctx, recordKey(gone.TaskID), func(old []byte) ([]byte, time.Duration, error) {
			if !mayDiscard(old, gone, late) {
				return nil, 0, errKept
			}
			return nil, 0, nil
		})
		if err != nil && !errors.Is(err, errKept) {
			return
		}
	}
}

// errKept says that a record is not deleted, although the ledger has given it up.
var errKept = errors.New("server: the record of the task is kept")

// mayDiscard reports whether the stored record of a task that the ledger has given up may be deleted. gone is what the ledger
// knew: another replica may run the task by now. late says that the end of the task was not stored yet, so that the stored
// record looks as if the task ran.
func mayDiscard(raw []byte, gone *store.TaskRecord, late bool) bool {
	rec, err := decodeRecord(raw)
	return err == nil && !takenOver(rec, gone.Runs, gone.Replica) && (late || rec.Status.Terminal())
}

// note brings the ledger up to date with a record that is in the store, if this replica has created it. The record counts
// also if there is no room for it.
func (g *ledger) note(rec *store.TaskRecord) (made room) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch k := g.find(rec.TaskID); {
	case k == nil:
	case takenOver(rec, k.rec.Runs, k.rec.Replica): // it is of the other replica now
		g.forget(k)
		g.wind()
	case !k.outdates(rec):
		made, _ = g.fit(k, k.sizeAs(rec))
		g.set(k, rec)
	}
	return made
}

// outdates reports whether the ledger knows more than rec says: a later change, or an end that is not stored yet.
func (k *keptTask) outdates(rec *store.TaskRecord) bool {
	return k.ended != nil && !rec.Status.Terminal() || k.rec.Revision > rec.Revision || k.rec.Runs > 1 && k.rec.Runs > rec.Runs
}

// lose removes a task that the store has lost: at once, or when the handler that runs here has returned. now says that the
// store has just been found without the task.
func (s *shared) lose(id string, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k == nil {
		return
	}
	if k.lost = k.lost || now; k.lost && !s.here(id) {
		s.forget(k)
		s.wind()
	}
}

// drop removes a task that was not created after all.
func (g *ledger) drop(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.byID[id]; k != nil {
		g.forget(k)
		g.wind()
	}
}

func (r *room) add(more room) {
	r.reached = append(r.reached, more.reached...)
	r.gone = append(r.gone, more.gone...)
}

// A storedRecord is a record as the store has it.
type storedRecord struct {
	Format int `json:"v"`
	*store.TaskRecord
}

// recordFormat is the version of the encoding. Replicas of two releases run at the same time while one
// replaces the other.
const recordFormat = 1

// maxRecordBytes bounds an encoded record, because that is what [store.Values] take.
const maxRecordBytes = 8 << 20

var errOtherFormat = mcp.NewError(mcp.CodeInternalError, "a server of another release has stored the task: this one cannot read it")

func recordKey(id string) string { return "task/{" + id + "}" }

func encodeRecord(rec *store.TaskRecord) ([]byte, error) {
	raw, err := json.Marshal(storedRecord{recordFormat, rec})
	if err == nil && len(raw) > maxRecordBytes {
		err = mcp.NewError(mcp.CodeInternalError, "the task is too large: the store takes %d bytes, and it has %d", maxRecordBytes, len(raw))
	}
	return raw, err
}

// rawData keeps the data of errors as JSON, so that clients of all replicas get the same bytes.
var rawData = json.WithUnmarshalers(json.UnmarshalFunc(func(raw []byte, data *any) error {
	*data = jsontext.Value(bytes.Clone(raw))
	return nil
}))

func decodeRecord(raw []byte) (*store.TaskRecord, error) {
	var format struct {
		Format int `json:"v"`
	}
	stored := storedRecord{TaskRecord: new(store.TaskRecord)}
	if json.Unmarshal(raw, &format) != nil || format.Format != recordFormat || json.Unmarshal(raw, &stored, rawData) != nil {
		return nil, errOtherFormat
	}
	return stored.TaskRecord, nil
}
