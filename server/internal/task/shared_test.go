package task

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A replica has room for one task. When it creates a second one it gives up the first, which has ended as far as it knows, and
// deletes that from the store if this is so.
func TestRecordIsDeletedOnlyIfItsTaskHasEndedHere(t *testing.T) {
	ends := func(rec *store.TaskRecord) error { rec.Status = mcp.TaskCompleted; return nil }
	for name, tt := range map[string]struct {
		now   func(*store.TaskRecord) // what the store has meanwhile
		waits bool                    // the end waits for the store
		kept  bool
	}{
		"it has ended":                          {now: func(rec *store.TaskRecord) { _ = ends(rec) }},
		"its end waits for the store":           {now: func(*store.TaskRecord) {}, waits: true},
		"it runs":                               {now: func(*store.TaskRecord) {}, kept: true},
		"another replica runs it":               {now: func(rec *store.TaskRecord) { rec.Runs, rec.Replica = 2, "b" }, waits: true, kept: true},
		"another replica has run it":            {now: func(rec *store.TaskRecord) { rec.Runs, rec.Replica = 2, "b"; _ = ends(rec) }, kept: true},
		"it runs here again, after another one": {now: func(rec *store.TaskRecord) { rec.Runs = 3 }, waits: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := new(replicas)
				s := all.open(t).(*shared)
				s.limits = limits.Limits{MaxTasks: 1}.WithDefaults
				create := func(id string) error {
					return s.Create(t.Context(), &store.TaskRecord{
						Task: mcp.Task{TaskID: id, Status: mcp.TaskWorking}, Replica: "a", Runs: 1, Expires: time.Now().Add(time.Hour),
					})
				}
				require.NoError(t, create("first"))
				_, err := s.expect("first", ends)
				require.NoError(t, err)
				if tt.waits {
					s.unsaved.add("first", lateEnd{end: ends})
				}
				require.NoError(t, all.Update(t.Context(), recordKey("first"), func(old []byte) ([]byte, time.Duration, error) {
					rec, err := decodeRecord(old)
					require.NoError(t, err)
					tt.now(rec)
					raw, err := encodeRecord(rec)
					return raw, time.Hour, err
				}))
				require.NoError(t, create("second"))
				require.True(t, s.unsaved.empty())
				_, err = s.Load(t.Context(), "first")
				if tt.kept {
					require.NoError(t, err)
				} else {
					require.Equal(t, store.ErrNoTask, err)
				}
			})
		})
	}
}
