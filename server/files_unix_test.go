//go:build unix

package server_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// rootFiles serves the files of a new directory.
func rootFiles(t *testing.T) (dir string, client *servertest.Client) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	srv := newServer(t)
	server.AddFiles(srv, server.Files{URI: "file:///", Name: "files", FS: root.FS()})
	return dir, servertest.Connect(t, srv)
}

// Opening a named pipe waits for its other end, and takes a thread while it waits.
func TestCompletionDoesNotOpenAPipe(t *testing.T) {
	dir, client := rootFiles(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		needs.Skip(t, "files of an os.Root", "no named pipes here: "+err.Error())
	}
	answered := make(chan error, 1)
	go func() {
		for _, value := range []string{"pipe/", "pipe/x", "pipe", ""} {
			got, err := client.CompleteResource(t.Context(), "file:///{+path}", "path", value, nil)
			if err == nil && len(got.Values) > 0 {
				err = fmt.Errorf("%q: %q", value, got.Values)
			}
			if err != nil {
				answered <- err
				return
			}
		}
		answered <- nil
	}()
	select {
	case err := <-answered:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		go os.WriteFile(filepath.Join(dir, "pipe"), nil, 0) // frees the thread
		t.Fatal("the completion waits for the other end of a pipe")
	}
}

// What a name stands for is the client's doing: it is told so, and not that the server has failed.
func TestOddFilesAreTheCallersFault(t *testing.T) {
	dir, client := rootFiles(t)
	t.Chdir(dir) // because the path of a socket may be at most 108 bytes long
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	require.NoError(t, os.WriteFile("locked", nil, 0))
	require.NoError(t, syscall.Mkfifo("pipe", 0o644))
	for link, target := range map[string]string{"loop": "loop", "out": "..", "secret": "/etc/passwd", "dangling": "nothing"} {
		require.NoError(t, os.Symlink(target, link))
	}
	l, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer l.Close()
	for _, name := range []string{
		"pipe", "socket", "loop", "loop/x", "out", "out/x", "secret", "dangling", "file/below", "pipe/below", "nul%00byte",
		strings.Repeat("x", 300), strings.Repeat("x/", 1500) + "x",
	} {
		_, err := client.ReadResource(t.Context(), "file:///"+name)
		rpc, _ := mcp.AsError(err)
		require.NotNil(t, rpc, name)
		require.Equal(t, mcp.CodeInvalidParams, rpc.Code, "%s: %v", name, rpc)
		require.Equal(t, map[string]any{"uri": "file:///" + name}, rpc.Data)
	}
	if f, err := os.Open("locked"); err == nil { // root may read anything
		f.Close()
		return
	}
	_, err = client.ReadResource(t.Context(), "file:///locked")
	require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, "the file must not be read: permission denied"), err)
}

// The cost of a completion does not grow with the directory.
func TestCompletionLooksAtSomeEntriesOnly(t *testing.T) {
	dir, client := rootFiles(t)
	const files = 6000
	for i := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), nil, 0o600))
	}
	got, err := client.CompleteResource(t.Context(), "file:///{+path}", "path", "f", nil)
	require.NoError(t, err)
	require.Len(t, got.Values, mcp.MaxCompletions)
	require.True(t, got.HasMore)
	require.Equal(t, 2000, *got.Total)
}
