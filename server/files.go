package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// Files describes a directory to [AddFiles].
type Files struct {
	// URI is what the URI of every file begins with, such as "file:///docs/". It ends with
	// a slash; the path of the file follows.
	URI         string
	Name        string
	Title       string
	Description string
	// FS holds the files. For a directory of the operating system take the FS of an
	// [os.Root], which no symbolic link leads out of, and not [os.DirFS].
	FS fs.FS
	// MaxBytes is the largest file that is read; 0 is 1 MiB.
	MaxBytes int64
	// TTL and Scope are explained at [Resource].
	TTL   time.Duration
	Scope mcp.CacheScope
	// Middleware wraps the reads, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline, Class and Scopes are explained at [Tool], ScopesFor at [ResourceTemplate].
	Deadline  time.Duration
	Class     *Class
	Scopes    []string
	ScopesFor func(uri string) []string
}

// AddFiles registers the regular files of a directory and of those below it as one
// resource template, whose URI template is f.URI followed by {+path}, with completion of
// the paths, for which at most 2000 entries of a directory are looked at. It replaces files that were registered under the same URI, as
// [AddResourceTemplate] does. Files and directories whose name begins with a dot do not
// exist. It panics on a mistake in the definition; see [TryAddFiles].
func AddFiles(s *Server, f Files) {
	must(TryAddFiles(s, f))
}

// TryAddFiles is [AddFiles] that returns the error: without an FS, for a URI that does not end
// with a slash or has a brace in it, for a negative MaxBytes, and in the cases of
// [TryAddResourceTemplate]. After an error nothing has changed.
func TryAddFiles(s *Server, f Files) error {
	if f.FS == nil || !strings.HasSuffix(f.URI, "/") || strings.ContainsAny(f.URI, "{}") || f.MaxBytes < 0 {
		return fmt.Errorf("server: files %q need an FS, a URI that ends with a slash, and no negative limit", cut(f.URI, 128))
	}
	f.MaxBytes = cmp.Or(f.MaxBytes, 1<<20)
	return TryAddResourceTemplate(s, ResourceTemplate{
		URITemplate: f.URI + "{+path}", Name: f.Name, Title: f.Title, Description: f.Description,
		Complete: map[string]CompleteFunc{"path": f.complete}, TTL: f.TTL, Scope: f.Scope, Middleware: f.Middleware,
		Deadline: f.Deadline, Class: f.Class, Scopes: f.Scopes, ScopesFor: f.ScopesFor,
	}, func(_ context.Context, _ *Call, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
		return f.read(vars["path"])
	})
}

// shown reports whether a path is valid and not hidden. Other paths, such as one with "..",
// never reach the file system.
func shown(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.")
}

// stat describes a file or directory. It comes before Open, because opening a named pipe waits for
// its other end.
func (f *Files) stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(f.FS, name)
	return info, fileFault(err)
}

// fileFault returns the error for a file that cannot be read. It is the caller's fault if the name
// cannot be that of a file below the directory.
func fileFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), errors.Is(err, syscall.ENOTDIR), leavesRoot(err),
		errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		return ErrResourceNotFound
	case errors.Is(err, fs.ErrPermission):
		return mcp.NewError(mcp.CodeInvalidParams, "the file must not be read: permission denied")
	}
	return err
}

// leavesRoot reports whether a link leads out of an [os.Root]. Package os does not export the error.
func leavesRoot(err error) bool {
	var fault *fs.PathError
	return errors.As(err, &fault) && fault.Err.Error() == "path escapes from parent"
}

// read reads one file.
func (f *Files) read(name string) ([]mcp.ResourceContents, error) {
	if !shown(name) {
		return nil, ErrResourceNotFound
	}
	info, err := f.stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrResourceNotFound
	}
	if err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, fileFault(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, max(f.MaxBytes, f.MaxBytes+1))) // which may overflow
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > f.MaxBytes {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "the file is larger than %d bytes", f.MaxBytes)
	}
	contents := mcp.ResourceContents{MIMEType: mime.TypeByExtension(path.Ext(name))}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		contents.Text, contents.MIMEType = string(data), cmp.Or(contents.MIMEType, "text/plain")
	} else {
		contents.Blob, contents.MIMEType = data, cmp.Or(contents.MIMEType, "application/octet-stream")
	}
	return []mcp.ResourceContents{contents}, nil
}

const (
	// maxListed bounds the entries of a directory that one completion looks at.
	maxListed = 2000
	// listedAtOnce is how many entries are read before the context is looked at again.
	listedAtOnce = 250
)

// complete proposes the entries of the typed directory.
func (f *Files) complete(ctx context.Context, _ *Call, value string, _ map[string]string) (fit []string, err error) {
	dir, base := path.Split(value)
	if dir != "" && !shown(strings.TrimSuffix(dir, "/")) {
		return nil, nil
	}
	name := path.Clean("./" + dir)
	if info, err := f.stat(name); err != nil || !info.IsDir() {
		return nil, nil
	}
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, nil // it was removed just now
	}
	defer file.Close()
	list, ok := file.(fs.ReadDirFile)
	for read := 0; ok && err == nil && ctx.Err() == nil && read < maxListed; {
		var entries []fs.DirEntry
		entries, err = list.ReadDir(listedAtOnce)
		read += len(entries)
		for _, e := range entries {
			if name, proposed := proposal(dir, e); proposed && strings.HasPrefix(e.Name(), base) {
				fit = append(fit, name)
			}
		}
	}
	slices.Sort(fit)
	return fit, context.Cause(ctx)
}

// proposal returns the name of an entry as a completion. Only directories and what may be a regular
// file are proposed.
func proposal(dir string, e fs.DirEntry) (name string, proposed bool) {
	name = dir + e.Name()
	switch {
	case !shown(name):
		return "", false
	case e.IsDir():
		return name + "/", true
	}
	return name, e.Type()&^fs.ModeSymlink == 0
}
