//go:build unix && !aix && !solaris

package auditfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two processes with one file would write over each other's records. The second one is refused until the first has closed it,
// also after the file was rotated. Other files of the same folder are free.
func TestOneWriterHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	first, err := New(Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, first.Rotate())
	_, err = New(Config{Path: path})
	require.ErrorContains(t, err, "another process writes to "+path)
	require.NoError(t, Check(Config{Path: path}), "a check may run beside the server")
	other, err := New(Config{Path: filepath.Join(filepath.Dir(path), "other.jsonl")})
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, first.Close())
	second, err := New(Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, second.Close())
	names, err := Files(path)
	require.NoError(t, err)
	require.Len(t, names, 2, "the lock is none of the files")
	info, err := os.Stat(path + ".lock")
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
