//go:build unix

package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A plain open of a named pipe without a writer would block for ever. A socket cannot be opened.
func TestSearchSkipsSpecialFiles(t *testing.T) {
	s, dir := newTestSearcher(t, map[string]string{"z": "needle\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		needs.Skip(t, "vitrine/search", "no named pipes here")
	}
	t.Chdir(dir) // because the path of a socket may be at most 108 bytes long
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
		if err != nil || hits(out) != "z:1" || out.FilesSearched != 1 {
			t.Errorf("got %q in %d files, %v", hits(out), out.FilesSearched, err)
		}
		_, err = s.search(t.Context(), searchInput{Pattern: "needle", Path: "pipe"}, nil)
		if err == nil || !strings.Contains(err.Error(), "neither a regular file nor a folder") {
			t.Errorf("path of a pipe: got error %v", err)
		}
		// A file that turns into a pipe after it was listed.
		q, err := newQuery(t.Context(), searchInput{Pattern: "needle"})
		if err != nil {
			t.Error(err)
			return
		}
		if err := q.file(s.root, "pipe"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("file became a pipe: got error %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the search hangs on a special file")
	}
}
