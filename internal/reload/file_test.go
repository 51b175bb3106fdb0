package reload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world has two files, a clock, and what the parser and the reporter have seen.
type world struct {
	t      *testing.T
	one    string
	two    string
	now    time.Time
	parsed int
	faults []error
	files  *Files[string]
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, one: filepath.Join(dir, "one"), two: filepath.Join(dir, "two"), now: time.Unix(1e9, 0)}
	w.write(w.one, "a")
	w.write(w.two, "b")
	files, err := Open(w.parse, func(err error) { w.faults = append(w.faults, err) }, w.one, w.two)
	require.NoError(t, err)
	files.Now = func() time.Time { return w.now }
	files.looked = w.now
	w.files = files
	return w
}

func (w *world) parse(texts [][]byte) (string, error) {
	w.parsed++
	value := string(texts[0]) + string(texts[1])
	if strings.Contains(value, "bad") {
		return "", errors.New("it is bad")
	}
	return value, nil
}

func (w *world) write(path, text string) {
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) wait(d time.Duration) { w.now = w.now.Add(d) }

func TestChangedFilesAreReadAgain(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "ab", w.files.Value())
	w.write(w.two, "c")
	w.wait(Interval - 1)
	require.Equal(t, "ab", w.files.Value(), "not before the interval is over")
	w.wait(1)
	require.Equal(t, "ac", w.files.Value())
	require.Equal(t, 2, w.parsed)
	w.wait(time.Hour)
	require.Equal(t, "ac", w.files.Value())
	require.Equal(t, 2, w.parsed, "nothing has changed")
}

func TestTheLastGoodValueStays(t *testing.T) {
	w := newWorld(t)
	w.write(w.one, "bad")
	for range 3 {
		w.wait(Interval)
		require.Equal(t, "ab", w.files.Value())
	}
	require.Len(t, w.faults, 1, "the same failure is reported once")
	require.NoError(t, os.Remove(w.one))
	w.wait(Interval)
	require.Equal(t, "ab", w.files.Value())
	w.write(w.one, "x")
	w.wait(Interval)
	require.Equal(t, "xb", w.files.Value())
	w.write(w.one, "bad")
	w.wait(Interval)
	require.Equal(t, "xb", w.files.Value())
	require.Len(t, w.faults, 2, "a new failure is reported")
}

// Nobody asks for the value on an idle server. Stale looks at the files itself, as often as Value does.
func TestStaleLooksAtTheFiles(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.files.Stale())
	w.write(w.one, "bad")
	w.wait(Interval - 1)
	require.False(t, w.files.Stale(), "not before the interval is over")
	w.wait(1)
	require.True(t, w.files.Stale())
	require.Len(t, w.faults, 1)
	require.NoError(t, os.Remove(w.two))
	w.wait(Interval)
	require.True(t, w.files.Stale(), "a file that is away")
	w.write(w.one, "x")
	w.write(w.two, "y")
	w.wait(Interval)
	require.False(t, w.files.Stale())
	require.Equal(t, "xy", w.files.Value())
}

func TestOpenReturnsTheFirstError(t *testing.T) {
	parse := func([][]byte) (string, error) { return "", errors.New("it is bad") }
	_, err := Open(parse, nil, filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, make([]byte, MaxFile+1), 0o600))
	_, err = Open(parse, nil, big)
	require.ErrorContains(t, err, "more than")
	require.NoError(t, os.Truncate(big, 3))
	_, err = Open(parse, nil, big)
	require.EqualError(t, err, "it is bad")
}
