package auditfile

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
)

// A disk counts how often it is synchronized.
type disk struct {
	writes, syncs int
	err           error // of the next synchronization
}

func (d *disk) Write(p []byte) (int, error) {
	d.writes++
	return len(p), nil
}

func (d *disk) Sync() error {
	d.syncs++
	return d.err
}

func (d *disk) Rotate() error { return nil }
func (d *disk) Close() error  { return nil }

func TestRecordsAreSynchronizedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := &File{logger: d, every: time.Second}
		entry := []audit.Entry{{Line: []byte("{}")}}
		write := func() error {
			_, err := f.Write(t.Context(), entry)
			return err
		}
		syncs := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			return d.syncs
		}
		require.NoError(t, write())
		require.NoError(t, write())
		require.Zero(t, syncs(999*time.Millisecond))
		require.Equal(t, 1, syncs(time.Millisecond))
		require.Equal(t, 1, syncs(time.Minute), "there is nothing new")

		d.err = errors.New("the disk is gone")
		require.NoError(t, write())
		require.Equal(t, 2, syncs(time.Second))
		written := d.writes
		require.ErrorContains(t, write(), "the disk is gone")
		require.Equal(t, written, d.writes, "the records are not lost: they are written again")
		d.err = syscall.EINVAL // the file system cannot do it
		require.NoError(t, write())
		require.Equal(t, 3, syncs(time.Second))
		require.NoError(t, write())
		d.err = nil
		require.NoError(t, f.Close())
		require.Equal(t, 4, d.syncs)
		require.Equal(t, 4, syncs(time.Minute), "the file is closed")
	})
}

func TestNegativeSyncEverySynchronizesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := &File{logger: d, every: -1}
		_, err := f.Write(t.Context(), []audit.Entry{{Line: []byte("{}")}})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, d.syncs)
		require.NoError(t, f.Close())
		require.Equal(t, 1, d.syncs)
	})
}
