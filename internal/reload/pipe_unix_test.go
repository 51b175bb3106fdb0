//go:build unix

package reload

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe has no second reading: a look at it must not wait for a writer.
func TestPipesAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("secret"), 0o600) }()
	files, err := Open(func(texts [][]byte) (string, error) { return string(texts[0]), nil },
		func(err error) { t.Error(err) }, path)
	require.NoError(t, err)
	require.NoError(t, <-written)
	now := time.Now()
	files.Now = func() time.Time { return now }
	now = now.Add(time.Hour)
	require.Equal(t, "secret", files.Value())
}
