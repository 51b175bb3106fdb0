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
	"strings"
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
	// Deadline and Class are explained at [Tool].
	Deadline time.Duration
	Class    *Class
}

// AddFiles registers the regular files of a directory and of those below it as one
// resource template, whose URI template is f.URI followed by {+path}, with completion of
// the paths. It replaces files that were registered under the same URI, as
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
		Deadline: f.Deadline, Class: f.Class,
	}, func(_ context.Context, _ *Call, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
		return f.read(vars["path"])
	})
}

// shown reports whether a path is valid and not hidden. Other paths, such as one with "..",
// never reach the file system.
func shown(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.")
}

// read reads one file. It calls Stat before Open, because opening a named pipe waits for its
// other end.
func (f *Files) read(name string) ([]mcp.ResourceContents, error) {
	if !shown(name) {
		return nil, ErrResourceNotFound
	}
	info, err := fs.Stat(f.FS, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || err == nil && !info.Mode().IsRegular() {
		return nil, ErrResourceNotFound
	}
	if err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, f.MaxBytes+1))
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

// complete proposes the entries of the typed directory.
func (f *Files) complete(_ context.Context, _ *Call, value string, _ map[string]string) (fit []string, err error) {
	dir, base := path.Split(value)
	if dir != "" && !shown(strings.TrimSuffix(dir, "/")) {
		return nil, nil
	}
	entries, err := fs.ReadDir(f.FS, path.Clean("./"+dir))
	if err != nil {
		return nil, nil // the directory does not exist
	}
	for _, e := range entries {
		name := dir + e.Name()
		switch {
		case !strings.HasPrefix(e.Name(), base) || !shown(name):
		case e.IsDir():
			fit = append(fit, name+"/")
		default:
			fit = append(fit, name)
		}
	}
	return fit, nil
}
