package auditfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = bytes.Repeat([]byte("k"), audit.MinKeyBytes)

// record writes records to a file with a log that is opened and closed.
func record(t *testing.T, c Config, records int, during func(*File)) {
	t.Helper()
	f, err := New(c)
	require.NoError(t, err)
	l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: testKey})
	require.NoError(t, err)
	for i := range records {
		l.Add(audit.Record{
			Time: time.Now(), Principal: &auth.Principal{Subject: "ann"}, Operation: "tools/call", Target: fmt.Sprintf("%0500d", i),
			Outcome: audit.OutcomeOK,
		})
		if during != nil && i == records/2 {
			during(f)
		}
	}
	require.NoError(t, l.Close(t.Context()))
	require.Equal(t, uint64(records+2), l.Stats()[0].Written)
}

// verify verifies a file with the older ones.
func verify(t *testing.T, path string) audit.Verification {
	t.Helper()
	v, err := audit.NewVerifier(testKey, 1)
	require.NoError(t, err)
	names, err := Files(path)
	require.NoError(t, err)
	for _, name := range names {
		r, err := Open(name)
		require.NoError(t, err)
		require.NoError(t, v.Read(name, r))
		require.NoError(t, r.Close())
	}
	return v.Result()
}

func TestFileHasOneObjectALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Len(t, lines, 5)
	for _, line := range lines {
		var values map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &values), line)
	}
	require.Contains(t, lines[1], `"subject":"ann"`)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "only the owner may read it")
}

// The chain goes on over rotated and compressed files, and over processes.
func TestChainSpansFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for range 2 {
		record(t, Config{Path: path, MaxSize: 1, Compress: true}, 4000, nil)
	}
	names, err := Files(path)
	require.NoError(t, err)
	require.Greater(t, len(names), 3)
	require.True(t, strings.HasSuffix(names[0], ".gz"), names[0])
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, 8004, got.Lines)
	require.NoError(t, os.Remove(names[1]))
	require.Len(t, verify(t, path).Faults, 1, "an older file is missing")
}

// The current file may be empty or gone when the process starts: then an older one has the last line.
func TestChainGoesOnAfterAnOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path}, 3, func(*File) {})
	f, err := New(Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, f.Rotate())
	require.NoError(t, f.Close())
	record(t, Config{Path: path}, 3, nil)
	require.NoError(t, os.Rename(path, filepath.Join(filepath.Dir(path), "audit-2099-01-01T00-00-00.000-moved.jsonl")))
	record(t, Config{Path: path}, 3, nil)
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, 15, got.Lines)
}

// Something else moves the file away and tells the program: no record is lost.
func TestRotateAfterAMove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	moved := filepath.Join(dir, "audit-2020-01-01T00-00-00.000-moved.jsonl")
	record(t, Config{Path: path}, 100, func(f *File) {
		require.NoError(t, os.Rename(path, moved))
		require.NoError(t, f.Rotate())
	})
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, 102, got.Lines)
	names, err := Files(path)
	require.NoError(t, err)
	require.Equal(t, []string{moved, path}, names)
}

// A process that has died within a line leaves the beginning of it: the next one begins a new line, and
// says so.
func TestIncompleteLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"time":"2026-`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.True(t, verify(t, path).Torn)
	record(t, Config{Path: path}, 3, nil)
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, 10, got.Lines)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "{\"time\":\"2026-\n{")
}

// Files of other audits in the same folder are not older files of this one, even if their names begin alike.
func TestFilesOfOtherAuditsDoNotCount(t *testing.T) {
	dir := t.TempDir()
	paths := []string{"audit.jsonl", "audit-b.jsonl", "audit-2026.jsonl", "audit"}
	for _, name := range paths {
		record(t, Config{Path: filepath.Join(dir, name)}, 2, func(f *File) { require.NoError(t, f.Rotate()) })
	}
	for _, name := range []string{
		"audit-2026-01-01T00-00-00.000.jsonl", "audit-2026-01-01T00-00-00.000size.jsonl", "audit-2026-13-01T00-00-00.000-size.jsonl",
		"audit-2026-01-01T00-00-00.000-size.gz.tmp", "audit-2026-01-01T00-00-00.000-b-size.jsonl",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o600))
	}
	for _, name := range paths {
		names, err := Files(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Len(t, names, 2, name)
		got := verify(t, filepath.Join(dir, name))
		require.Empty(t, got.Faults, name)
		require.Equal(t, 4, got.Lines, name)
	}
}

// A fullDisk takes only the beginning of some writes.
type fullDisk struct {
	rotator
	room []int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(d.room) == 0 || d.room[0] >= len(p) {
		return d.rotator.Write(p)
	}
	n, _ := d.rotator.Write(p[:d.room[0]])
	d.room = d.room[1:]
	return n, errors.New("no space left on device")
}

// A write that ends within a line is no fault: the line comes again, on a line of its own.
func TestPartialWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f, err := New(Config{Path: path})
	require.NoError(t, err)
	f.logger = &fullDisk{f.logger, []int{600, 10, 0, 300}}
	l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: testKey})
	require.NoError(t, err)
	for i := range 10 {
		l.Add(audit.Record{Time: time.Now(), Operation: "tools/call", Target: fmt.Sprintf("%0500d", i), Outcome: audit.OutcomeOK})
	}
	require.NoError(t, l.Close(t.Context()))
	require.Equal(t, uint64(4), l.Stats()[0].Failures)
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, 12, got.Lines)
}

// Only so many older files are kept.
func TestOldFilesAreDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path, MaxSize: 1, MaxFiles: 2}, 10000, nil)
	names, err := Files(path)
	require.NoError(t, err)
	require.LessOrEqual(t, len(names), 4)
}

// A check changes nothing, whether the file exists, or its folder does not.
func TestCheckChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, c := range []Config{{Path: path}, {Path: filepath.Join(dir, "new.jsonl")}, {Path: filepath.Join(dir, "new", "folder", "audit.jsonl")}} {
		require.NoError(t, Check(c), c.Path)
	}
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	names, err := Files(path)
	require.NoError(t, err)
	require.Equal(t, []string{path}, names)
	require.NoDirExists(t, filepath.Join(dir, "new"))
	require.NoFileExists(t, filepath.Join(dir, "new.jsonl"))
}

func TestBadConfigurations(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]Config{
		"no path": {}, "a folder": {Path: dir}, "below a file": {Path: filepath.Join(file, "x")}, "negative": {Path: file, MaxDays: -1},
	} {
		require.Error(t, Check(c), name)
		_, err := New(c)
		require.Error(t, err, name)
	}
	require.DirExists(t, dir)
	_, err := Files(filepath.Join(dir, "none.jsonl"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
