package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Resources that are files, and the completion of their paths, stay in their folder, too. Opening
// a pipe waits for its other end, so that none may be opened.
func TestFilesStayInTheirFolder(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--folder", trap(t))
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	read := func(uri string) response {
		t.Helper()
		return c.modern(t, 1, call{method: "resources/read", params: `"uri":` + quote(uri), name: uri})
	}
	threads := s.status(t, "Threads")
	for _, path := range ways {
		for _, uri := range []string{"file:///docs/" + path, "file:///" + path, "FILE:///docs/" + path, "file://localhost/docs/" + path} {
			r := read(uri)
			if r.Result != nil || strings.Contains(r.body, secret) || r.code() == -32603 {
				t.Errorf("%q: %d %.300s", uri, r.status, r.body)
			}
		}
		complete := fmt.Sprintf(`"ref":{"type":"ref/resource","uri":"file:///docs/{+path}"},"argument":{"name":"path","value":%s}`, quote(path+"/"))
		r := c.modern(t, 1, call{method: "completion/complete", params: complete})
		if strings.Contains(r.body, "secret") || strings.Contains(r.body, "passwd") || strings.Contains(r.body, ".env") || r.code() == -32603 {
			t.Errorf("completion of %q: %d %.300s", path, r.status, r.body)
		}
	}
	if r := read("file:///docs/open.txt"); r.Result == nil || len(r.Result.Contents) != 1 || r.Result.Contents[0].Text != "open to all" {
		t.Errorf("an open file: %d %s", r.status, r.body)
	}
	if now := s.status(t, "Threads"); now > threads+10 {
		t.Errorf("the server had %d threads and has %d: some wait for a pipe", threads, now)
	}
	undisturbed()
}

// Completion in a large folder costs what its answer costs, and not what the folder has: about as much as in a small
// one that has as many answers.
func TestCompletionOfALargeFolderIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, files := range map[string]int{"small": 1_000, "large": 24_000} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if err := os.WriteFile(filepath.Join(folder, name, fmt.Sprintf("file-%05d", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := attacked(t, "--folder", folder)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	cost := func(name string) time.Duration {
		complete := call{method: "completion/complete", params: `"ref":{"type":"ref/resource","uri":"file:///docs/{+path}"},"argument":{"name":"path","value":"` + name + `/file-"}`}
		if r := c.modern(t, 1, complete); r.Result == nil || !strings.Contains(r.body, "file-") {
			t.Fatalf("%d %s", r.status, r.body)
		}
		before := s.cpu(t)
		for range 20 {
			c.modern(t, 1, complete)
		}
		return max(s.cpu(t)-before, 10*time.Millisecond) // in which the kernel counts
	}
	small, large := cost("small"), cost("large")
	t.Logf("20 completions take %v of CPU in a small folder and %v in a large one", small, large)
	if large > 8*small {
		t.Errorf("20 completions take %v of CPU in a large folder, and %v in a small one", large, small)
	}
	undisturbed()
}
