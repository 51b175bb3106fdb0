package auditfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
)

// A disk counts how often it is synchronized.
type disk struct {
	writes, syncs, rotations int
	err                      error    // of the next synchronization
	folders                  []string // that were synchronized
	folderErr                error    // of the next synchronization of a folder
}

func (d *disk) syncFolder(path string) error {
	if d.folderErr == nil {
		d.folders = append(d.folders, path)
	}
	return d.folderErr
}

func (d *disk) Write(p []byte) (int, error) {
	d.writes++
	return len(p), nil
}

func (d *disk) Sync() error {
	d.syncs++
	return d.err
}

func (d *disk) Rotate() error {
	d.rotations++
	return nil
}

func (d *disk) Close() error { return nil }

// onDisk returns a file on a disk.
func onDisk(d *disk, every time.Duration) *File {
	return &File{path: "folder/file", logger: d, every: every, max: 1 << 20, syncFolder: d.syncFolder}
}

func TestRecordsAreSynchronizedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := onDisk(d, time.Second)
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
		f := onDisk(d, -1)
		_, err := f.Write(t.Context(), []audit.Entry{{Line: []byte("{}")}})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, d.syncs)
		require.NoError(t, f.Close())
		require.Equal(t, 1, d.syncs)
	})
}

// A powerCut counts the rotations after which a power cut could lose records: those of a file that is not synchronized.
type powerCut struct {
	rotator
	t        *testing.T
	path     string
	dirty    bool // records were written and not synchronized
	lossy, n int  // rotations
}

// watch counts the rotation that do makes, if it makes one.
func (p *powerCut) watch(do func()) {
	before, err := Files(p.path)
	require.NoError(p.t, err)
	do()
	after, err := Files(p.path)
	require.NoError(p.t, err)
	if len(after) == len(before) {
		return
	}
	p.n++
	if p.dirty {
		p.lossy++
	}
	p.dirty = false
}

func (p *powerCut) Write(text []byte) (n int, err error) {
	p.watch(func() { n, err = p.rotator.Write(text) })
	p.dirty = p.dirty || n > 0
	return n, err
}

func (p *powerCut) Rotate() (err error) {
	p.watch(func() { err = p.rotator.Rotate() })
	return err
}

func (p *powerCut) Sync() error {
	p.dirty = false
	return p.rotator.Sync()
}

// An older file is closed and never synchronized again, so it is synchronized before.
func TestFilesAreSynchronizedBeforeTheirRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f, err := New(Config{Path: path, MaxSize: 1, SyncEvery: -1})
	require.NoError(t, err)
	p := &powerCut{rotator: f.logger, t: t, path: path}
	f.logger = p
	entries := slices.Repeat([]audit.Entry{{Line: bytes.Repeat([]byte("x"), 1000)}}, 4000)
	n, err := f.Write(t.Context(), entries)
	require.NoError(t, err)
	require.Equal(t, len(entries), n)
	require.Equal(t, 3, p.n, "4 MB in files of 1 MiB")
	require.Zero(t, p.lossy, "because of their size")
	require.NoError(t, f.Rotate())
	require.Equal(t, 4, p.n)
	require.Zero(t, p.lossy, "because the program says so")
	require.NoError(t, f.Close())
	names, err := Files(path)
	require.NoError(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(1<<20))
	}
}

// A file that cannot be synchronized is rotated nonetheless, and the error is told.
func TestRotationTellsThatSynchronizationHasFailed(t *testing.T) {
	d := &disk{err: errors.New("the disk is gone")}
	f := onDisk(d, -1)
	require.ErrorContains(t, f.Rotate(), "the disk is gone")
	require.Equal(t, 1, d.rotations)
	d.err = syscall.EINVAL // the file system cannot do it
	require.NoError(t, f.Rotate())
	require.Equal(t, 2, d.rotations)
	require.NoError(t, f.Close())
}

// What went wrong after the last write is told at the end.
func TestCloseTellsThatSynchronizationHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errors.New("the disk is gone")}
		f := onDisk(d, time.Second)
		_, err := f.Write(t.Context(), []audit.Entry{{Line: []byte("{}")}})
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		d.err = nil // a system says it once
		require.ErrorContains(t, f.Close(), "the disk is gone")
	})
}

func TestLongLinesTakeNoMemoryLater(t *testing.T) {
	f := onDisk(&disk{}, -1)
	for _, size := range []int{1 << 10, 8 << 20, 1 << 10} {
		n, err := f.Write(t.Context(), []audit.Entry{{Line: make([]byte, size)}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.LessOrEqual(t, cap(f.text), 2*maxWrite)
	}
	require.NoError(t, f.Close())
}

// A machine that loses its power after a rotation does not lose the new file: its name is synchronized with its first records.
func TestNamesOfNewFilesAreSynchronized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		f := onDisk(d, time.Second)
		writeAndWait := func() error {
			_, err := f.Write(t.Context(), []audit.Entry{{Line: []byte("{}")}})
			time.Sleep(time.Second)
			synctest.Wait()
			return err
		}
		require.NoError(t, writeAndWait())
		require.Empty(t, d.folders, "no name is new")
		require.NoError(t, f.Rotate())
		require.NoError(t, writeAndWait())
		require.Equal(t, []string{"folder"}, d.folders)
		require.NoError(t, writeAndWait())
		require.Len(t, d.folders, 1, "nothing is new since")

		d.folderErr = errors.New("the disk is gone")
		require.NoError(t, f.Rotate())
		require.NoError(t, writeAndWait())
		d.folderErr = nil
		require.ErrorContains(t, writeAndWait(), "earlier records may not be on the disk: the disk is gone")
		require.NoError(t, f.Rotate())
		require.Len(t, d.folders, 2, "it was tried again")
		require.NoError(t, f.Close())
		require.Len(t, d.folders, 3, "the last name is not lost either")
	})
}

// A new file may be in a folder that is new too, whose name is in the folder above.
func TestNamesOfNewFoldersAreSynchronized(t *testing.T) {
	dir := t.TempDir()
	for _, want := range [][]string{
		{filepath.Join(dir, "a", "b"), filepath.Join(dir, "a"), dir},
		{filepath.Join(dir, "a", "b")}, // exists now
	} {
		f, err := New(Config{Path: filepath.Join(dir, "a", "b", "audit.jsonl"), SyncEvery: -1})
		require.NoError(t, err)
		var synced []string
		f.syncFolder = func(path string) error {
			synced = append(synced, path)
			return syncFolder(path)
		}
		require.NoError(t, f.Close())
		require.Equal(t, want, synced)
	}
	require.Error(t, syncFolder(filepath.Join(dir, "none")))
}
