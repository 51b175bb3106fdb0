package auditfile

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// bound makes a folder with some permissions, and lets the test run under them, also if its user is root.
func bound(t *testing.T, mode os.FileMode) (folder string) {
	t.Helper()
	parent := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(parent), 0o755)) // it is that of this test alone
	folder = filepath.Join(parent, "bound")
	require.NoError(t, os.Mkdir(folder, mode))
	if os.Geteuid() == 0 {
		const nobody = 65534
		require.NoError(t, os.Chown(folder, nobody, nobody))
		runtime.LockOSThread()
		require.NoError(t, syscall.Setfsuid(nobody))
		t.Cleanup(func() {
			require.NoError(t, syscall.Setfsuid(0))
			runtime.UnlockOSThread()
		})
	}
	return folder
}

// A server may write into a folder that it may not read. It cannot synchronize that, which is no error of its file.
func TestFolderThatTheServerMayNotReadIsNotSynchronized(t *testing.T) {
	folder := bound(t, 0o300)
	require.ErrorIs(t, syncFolder(filepath.Join(folder, "none")), os.ErrNotExist)
	_, err := os.Open(folder)
	require.ErrorIs(t, err, os.ErrPermission)
	require.NoError(t, syncFolder(folder))
}

// The files are beside each other, so their folder must be writable, also if the file exists.
func TestCheckLooksAtTheFolder(t *testing.T) {
	folder := bound(t, 0o500)
	for _, path := range []string{filepath.Join(folder, "audit.jsonl"), filepath.Join(folder, "new", "audit.jsonl")} {
		require.ErrorContains(t, Check(Config{Path: path}), folder)
	}
}
