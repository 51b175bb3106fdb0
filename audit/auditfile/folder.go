package auditfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// A file that is synchronized can be lost nonetheless: its name is in its folder, which is synchronized on its own.

// foldersOf returns the folders that get a new name when a file is made: its own, and for each folder on the way to it
// that does not exist yet the one that holds it.
func foldersOf(path string) []string {
	folder := filepath.Dir(path)
	folders := []string{folder}
	for {
		above := filepath.Dir(folder)
		if _, err := os.Stat(folder); err == nil || above == folder {
			return folders
		}
		folders = append(folders, above)
		folder = above
	}
}

// syncFolder synchronizes the names in a folder. That is not possible on Windows, nor if the server may only write there.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(ignoreUnsupported(folder.Sync()), folder.Close())
}

// ignoreUnsupported returns the error of a synchronization, unless the file system cannot do it.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
