//go:build unix

package auditfile

import "golang.org/x/sys/unix"

// writable returns an error if this process may not make files in a folder.
func writable(folder string) error {
	return unix.Faccessat(unix.AT_FDCWD, folder, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
