package auditfile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
)

// A killedProcess is a disk that takes a given part of each write. When the parts are used up, the process has been
// killed, and nothing is written any more.
type killedProcess struct {
	rotator
	parts  []int
	killed chan struct{}
}

func (d *killedProcess) Write(p []byte) (int, error) {
	if len(d.parts) == 0 {
		return 0, errors.New("the process was killed")
	}
	n, err := d.rotator.Write(p[:min(d.parts[0], len(p))])
	if d.parts = d.parts[1:]; len(d.parts) == 0 {
		close(d.killed)
	}
	return n, errors.Join(err, errors.New("no space left on device"))
}

// killed is a process that is killed when the disk has taken these parts of its writes, which are all parts of its first line.
func killed(t *testing.T, path string, parts ...int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, err := New(Config{Path: path})
		require.NoError(t, err)
		disk := &killedProcess{f.logger, parts, make(chan struct{})}
		f.logger = disk
		l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: testKey})
		require.NoError(t, err)
		<-disk.killed
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.Error(t, l.Close(ctx))
	})
}

// requireWhole requires that the records verify without a fault, in this number, and that the last process has not begun another chain.
func requireWhole(t *testing.T, path string, lines int) {
	t.Helper()
	got := verify(t, path)
	require.Empty(t, got.Faults)
	require.Equal(t, lines, got.Lines)
	require.True(t, got.Closed)
	require.False(t, got.Torn)
}

// A process that is killed after partial writes leaves incomplete lines, each on a line of its own. The chain goes on after the
// last complete line.
func TestKillAfterPartialWrites(t *testing.T) {
	const newline = 1
	for name, parts := range map[string][]int{
		"one":                           {40},
		"two, the second is longer":     {40, newline + 90},
		"two, the second is shorter":    {90, newline + 40},
		"two of the same length":        {40, newline + 40},
		"one and a newline":             {40, newline},
		"two and a newline":             {90, newline + 40, newline},
		"three":                         {60, newline + 20, newline + 90},
		"three, the first is longest":   {90, newline + 20, newline + 60},
		"a newline between":             {90, newline, 30},
		"nothing of the second":         {90, 0, newline + 30},
		"only the beginning of a line":  {1},
		"two of only the beginning":     {1, newline + 1},
		"a long one, and a short after": {150, newline + 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			record(t, Config{Path: path}, 3, nil)
			killed(t, path, parts...)
			died := verify(t, path)
			require.Empty(t, died.Faults, "before the next process starts")
			require.True(t, died.Torn)
			record(t, Config{Path: path}, 3, nil)
			requireWhole(t, path, 10)
			record(t, Config{Path: path}, 3, nil)
			requireWhole(t, path, 15)
		})
	}
}

// Several processes may be killed before one of them has written a complete line.
func TestKillOfSeveralProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	killed(t, path, 90, 41)
	killed(t, path, 100)
	killed(t, path, 30, 1)
	require.Empty(t, verify(t, path).Faults)
	record(t, Config{Path: path}, 3, nil)
	requireWhole(t, path, 10)
}

// The first process of a file may be killed: its incomplete lines follow no line.
func TestKillOfTheFirstProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	killed(t, path, 90, 41)
	record(t, Config{Path: path}, 3, nil)
	requireWhole(t, path, 5)
}

// A write may lack only its last newline. Then the line is there, and must not come again.
func TestWriteWithoutItsNewline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	opens := bytes.IndexByte(text, '\n') // where the newline of a first line is

	other := filepath.Join(t.TempDir(), "audit.jsonl")
	f, err := New(Config{Path: other})
	require.NoError(t, err)
	f.logger = &fullDisk{f.logger, []int{opens}}
	l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: testKey})
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	requireWhole(t, other, 2)

	third := filepath.Join(t.TempDir(), "audit.jsonl")
	require.NoError(t, os.WriteFile(third, text[:opens], 0o600))
	record(t, Config{Path: third}, 3, nil)
	requireWhole(t, third, 6)
}

// The incomplete lines may be in two files: one was rotated, the next one has only incomplete lines.
func TestKillAcrossARotation(t *testing.T) {
	for _, compress := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		record(t, Config{Path: path}, 3, nil)
		killed(t, path, 90, 41)
		f, err := New(Config{Path: path, Compress: compress})
		require.NoError(t, err)
		require.NoError(t, f.Rotate())
		require.NoError(t, f.Close())
		killed(t, path, 70, 21)
		names, err := Files(path)
		require.NoError(t, err)
		require.Len(t, names, 2)
		require.Equal(t, compress, strings.HasSuffix(names[0], ".gz"))
		record(t, Config{Path: path}, 3, nil)
		requireWhole(t, path, 10)
	}
}

// The process names the incomplete lines, so that nobody can change them, remove some of them, or add one.
func TestChangedIncompleteLinesAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, Config{Path: path}, 3, nil)
	killed(t, path, 90, 41, 61)
	record(t, Config{Path: path}, 3, nil)
	lines := readLines(t, path)
	require.Len(t, lines, 13)
	for name, change := range map[string]func(l []string) []string{
		"one is removed":      func(l []string) []string { return append(l[:6], l[7:]...) },
		"all are removed":     func(l []string) []string { return append(l[:5], l[8:]...) },
		"one is shortened":    func(l []string) []string { l[5] = l[5][:80]; return l },
		"one is repeated":     func(l []string) []string { l[6] = l[6] + "\n" + l[6]; return l },
		"two are exchanged":   func(l []string) []string { l[5], l[6] = l[6], l[5]; return l },
		"one is added":        func(l []string) []string { l[7] += "\n" + `{"time":"1999`; return l },
		"one is the first":    func(l []string) []string { l[5] = `{"time":"1999` + "\n" + l[5]; return l },
		"a complete one":      func(l []string) []string { l[3] = strings.Replace(l[3], "ann", "eve", 1); return l },
		"the last complete":   func(l []string) []string { l[4] = strings.Replace(l[4], "ok", "no", 1); return l },
		"it becomes torn":     func(l []string) []string { l[4] = l[4][:60]; return l },
		"it is removed":       func(l []string) []string { return append(l[:4], l[5:]...) },
		"the next is removed": func(l []string) []string { return append(l[:8], l[9:]...) },
	} {
		text := strings.Join(change(append([]string(nil), lines...)), "\n") + "\n"
		v, err := audit.NewVerifier(testKey, 1)
		require.NoError(t, err)
		require.NoError(t, v.Read("f", strings.NewReader(text)))
		if name == "all are removed" {
			require.Empty(t, v.Result().Faults, "they are no records")
			continue
		}
		require.NotEmpty(t, v.Result().Faults, name)
	}
}

// A complete line whose code is wrong is no incomplete line: another chain begins, with a warning, and the verification tells it.
func TestChangedLastLineBeforeAStart(t *testing.T) {
	for name, after := range map[string]string{"alone": "", "before an incomplete line": `{"time":"2026`, "before two": "{\"time\":\"2026\n{\"ti"} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		record(t, Config{Path: path}, 3, nil)
		lines := readLines(t, path)
		lines[4] = strings.Replace(lines[4], `"ok"`, `"no"`, 1)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"+after), 0o600))
		var log bytes.Buffer
		f, err := New(Config{Path: path})
		require.NoError(t, err)
		l, err := audit.New(audit.Config{Sinks: []audit.Sink{f}, Key: testKey, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, l.Close(t.Context()))
		require.Contains(t, log.String(), "audit.new_chain", name)
		require.Contains(t, strings.Join(verify(t, path).Faults, "\n"), "another chain begins", name)
	}
}

// The search for the last complete line is bounded. Beyond the bound another chain begins, with a warning.
func TestSearchForTheLastLineIsBounded(t *testing.T) {
	for _, c := range []struct {
		bytes int
		found bool
	}{{100, true}, {2 << 20, true}, {maxTail + 1, false}} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		record(t, Config{Path: path}, 3, nil)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(text, bytes.Repeat([]byte("x"), c.bytes)...), 0o600))
		f := &File{path: path}
		line, torn, err := f.Last()
		require.NoError(t, err)
		require.True(t, f.torn)
		if !c.found {
			require.Empty(t, torn)
			require.True(t, bytes.HasPrefix(line, []byte("xx")), "a line that the chain does not know")
			continue
		}
		require.Equal(t, readLines(t, path)[4], string(line))
		require.Len(t, torn, c.bytes)
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
