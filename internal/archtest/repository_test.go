package archtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goFiles reads all Go files of the repository, and its go.mod, by their path. The
// test of the import rule calls it as well, though go list does the work there: go test
// caches a result until a file changes that the test itself has opened, and it does not
// see what a program opens that the test has started.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	return repositoryFiles(t, func(name string) bool { return filepath.Ext(name) == ".go" || name == "go.mod" })
}

// markdown returns the pages of the repository by their path.
func markdown(t *testing.T) map[string][]byte {
	t.Helper()
	return repositoryFiles(t, func(name string) bool { return filepath.Ext(name) == ".md" })
}

// repositoryFiles reads the files of the repository whose name is wanted, by their path.
func repositoryFiles(t *testing.T, wanted func(name string) bool) map[string][]byte {
	t.Helper()
	root := moduleRoot(t)
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.ContainsAny(name[:1], "._") || name == "node_modules" || name == "testdata"):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !wanted(name):
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // an editor's temporary file
			return nil
		} else if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// moduleRoot returns the folder of go.mod. The working directory of a test is the
// folder of its package.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}
