package auditfile

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server may write into a folder that it may not read. It cannot synchronize that, which is no error of its file.
func TestFolderThatTheServerMayNotReadIsNotSynchronized(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dropbox")
	require.ErrorIs(t, syncFolder(folder), os.ErrNotExist)
	require.NoError(t, os.Mkdir(folder, 0o300))
	if os.Geteuid() == 0 { // root may read it
		const nobody = 65534
		require.NoError(t, os.Chown(folder, nobody, nobody))
		runtime.LockOSThread()
		require.NoError(t, syscall.Setfsuid(nobody))
		defer func() {
			require.NoError(t, syscall.Setfsuid(0))
			runtime.UnlockOSThread()
		}()
	}
	_, err := os.Open(folder)
	require.ErrorIs(t, err, os.ErrPermission)
	require.NoError(t, syncFolder(folder))
}
