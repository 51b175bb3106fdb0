//go:build unix && !aix && !solaris

package auditfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock of the file at path, which is that of an empty file beside it: the file itself is renamed when it is
// rotated. The lock ends when the returned file is closed, or the process ends. The empty file stays, because another process
// may be about to lock it. A file system without locks is used without one.
func lockFile(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("another process writes to %s, and each needs a file of its own (%s is locked)", path, lock.Name()), lock.Close())
	}
	return lock, nil
}
