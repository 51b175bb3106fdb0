package server_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

func TestFiles(t *testing.T) {
	srv := newServer(t)
	server.AddFiles(srv, server.Files{URI: "file:///docs/", Name: "docs", MaxBytes: 10, FS: strictFS{t, fstest.MapFS{
		"readme.html":  {Data: []byte("hello")},
		"empty":        {},
		"a/b c.json":   {Data: []byte(`{}`)},
		"a/pixel.png":  {Data: []byte{0x89, 'P'}},
		"a/raw":        {Data: []byte{'a', 0}},
		"full":         {Data: []byte("1234567890")},
		"large":        {Data: []byte("12345678901")},
		".env":         {Data: []byte("secret")},
		"a/.git/confi": {Data: []byte("secret")},
		"pipe":         {Mode: fs.ModeNamedPipe},
	}}})
	client := servertest.Connect(t, srv)
	for path, want := range map[string]mcp.ResourceContents{
		"readme.html":  {MIMEType: "text/html; charset=utf-8", Text: "hello"},
		"empty":        {MIMEType: "text/plain"},
		"a/b%20c.json": {MIMEType: "application/json", Text: "{}"},
		"a/pixel.png":  {MIMEType: "image/png", Blob: []byte{0x89, 'P'}},
		"a/raw":        {MIMEType: "application/octet-stream", Blob: []byte{'a', 0}},
		"full":         {MIMEType: "text/plain", Text: "1234567890"},
	} {
		got, err := client.ReadResource(t.Context(), "file:///docs/"+path)
		require.NoError(t, err, path)
		want.URI = "file:///docs/" + path
		require.Equal(t, []mcp.ResourceContents{want}, got.Contents)
	}
	for _, path := range []string{
		"", ".", "/", "a", "a/", "nope", "../docs/readme.html", "a/../readme.html", "a/%2e%2e/readme.html", "%2e%2e%2freadme.html",
		"/readme.html", "//readme.html", "./readme.html", "readme.html/", ".env", "a/.git/confi", "pipe", "readme.html?x", "a\\b", "a%5Cb", "%00",
	} {
		_, err := client.ReadResource(t.Context(), "file:///docs/"+path)
		rpc, _ := mcp.AsError(err)
		require.NotNil(t, rpc, path)
		require.Equal(t, map[string]any{"uri": "file:///docs/" + path}, rpc.Data, path)
		require.Equal(t, mcp.CodeInvalidParams, rpc.Code)
	}
	_, err := client.ReadResource(t.Context(), "file:///docs/large")
	require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, "the file is larger than 10 bytes"), err)

	server.AddFiles(srv, server.Files{URI: "file:///all/", Name: "all", MaxBytes: math.MaxInt64, FS: fstest.MapFS{"a": {Data: []byte("x")}}})
	got, err := client.ReadResource(t.Context(), "file:///all/a")
	require.NoError(t, err)
	require.Equal(t, "x", got.Contents[0].Text, "MaxInt64 is no bound")

	for value, want := range map[string][]string{
		"":        {"a/", "empty", "full", "large", "readme.html"},
		"pipe/":   {},
		"r":       {"readme.html"},
		"a":       {"a/"},
		"a/":      {"a/b c.json", "a/pixel.png", "a/raw"},
		"a/p":     {"a/pixel.png"},
		".":       {},
		"a/.":     {},
		"a/.g":    {},
		"a/.git/": {},
		"../":     {},
		"/":       {},
		"nope/":   {},
	} {
		got, err := client.CompleteResource(t.Context(), "file:///docs/{+path}", "path", value, nil)
		require.NoError(t, err)
		require.Equal(t, want, got.Values, value)
	}
}

// No link leads out of an os.Root.
func TestFilesOfARoot(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "open"), []byte("open"), 0o600))
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		needs.Skip(t, "files of an os.Root", "no symbolic links here: "+err.Error())
	}
	root, err := os.OpenRoot(inside)
	require.NoError(t, err)
	defer root.Close()
	srv := newServer(t)
	server.AddFiles(srv, server.Files{URI: "file:///", Name: "files", FS: root.FS()})
	client := servertest.Connect(t, srv)
	got, err := client.ReadResource(t.Context(), "file:///open")
	require.NoError(t, err)
	require.Equal(t, "open", got.Contents[0].Text)
	_, err = client.ReadResource(t.Context(), "file:///link/secret")
	require.Error(t, err)
	values, err := client.CompleteResource(t.Context(), "file:///{+path}", "path", "link/", nil)
	require.NoError(t, err)
	require.Empty(t, values.Values)
}

// strictFS is shown no path that may not be looked at.
type strictFS struct {
	*testing.T
	fs.FS
}

func (s strictFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) || strings.Contains("/"+name, "/.") && name != "." {
		s.Errorf("%q was opened", name)
	}
	return s.FS.Open(name)
}

// failingFS fails in a way that is not the client's to know.
type failingFS struct{}

func (failingFS) Open(string) (fs.File, error) { return nil, errors.New("disk on fire") }

func TestFilesThatFail(t *testing.T) {
	srv := newServer(t)
	server.AddFiles(srv, server.Files{URI: "x:/", Name: "n", FS: failingFS{}})
	require.JSONEq(t, failure(1, -32603, "internal error"), dial(t, srv).ask(modern(1, "resources/read", uri("x:/a"))))
	for _, bad := range []server.Files{
		{URI: "x:/", Name: "n"}, {URI: "x:", Name: "n", FS: failingFS{}}, {URI: "x:/{a}/", Name: "n", FS: failingFS{}},
		{URI: "y:/", Name: "n", FS: failingFS{}, MaxBytes: -1}, {URI: "y:/", FS: failingFS{}},
	} {
		require.Panics(t, func() { server.AddFiles(srv, bad) })
	}
}
