package auditfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Check returns an error if New would return one, and changes nothing: it makes no file and no folder. It is for a program
// that checks its configuration, also while another process writes to the file.
func Check(c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := checkFolder(filepath.Dir(c.Path)); err != nil {
		return fmt.Errorf("auditfile: %w", err)
	}
	if _, _, err := (&File{path: c.Path}).Last(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("auditfile: %w", err)
	}
	return nil
}

// check returns what is wrong with the configuration, or with the file if it exists.
func (c *Config) check() error {
	switch {
	case c.Path == "":
		return errors.New("auditfile: there is no path")
	case c.MaxSize < 0 || c.MaxFiles < 0 || c.MaxDays < 0:
		return errors.New("auditfile: sizes, numbers and days must not be negative")
	}
	if err := checkFile(c.Path); err != nil {
		return fmt.Errorf("auditfile: %w", err)
	}
	return nil
}

// checkFile returns an error for a file that exists and cannot be written to. The library would rename
// it and begin a new one, also a folder.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file, so that it cannot be rotated", path)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	return file.Close()
}

// checkFolder returns an error if files cannot be made in a folder. If the folder does not exist, the one that it would be
// made in counts.
func checkFolder(path string) error {
	info, err := os.Stat(path)
	switch parent := filepath.Dir(path); {
	case errors.Is(err, os.ErrNotExist) && parent != path:
		return checkFolder(parent)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	}
	if err := writable(path); err != nil {
		return &os.PathError{Op: "make a file in", Path: path, Err: err}
	}
	return nil
}
