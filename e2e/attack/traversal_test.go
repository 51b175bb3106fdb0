package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const secret = "the-secret-of-another-folder"

// trap makes a folder of files with ways out of it: links, a pipe, hidden files. Beside it is a
// secret.
func trap(t *testing.T) (folder string) {
	t.Helper()
	top := t.TempDir()
	folder = filepath.Join(top, "docs")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) { must(os.WriteFile(filepath.Join(top, name), []byte(text), 0o600)) }
	must(os.MkdirAll(filepath.Join(folder, "deep", ".git"), 0o700))
	write("secret.txt", secret)
	write("docs/open.txt", "open to all")
	write("docs/.env", secret)
	write("docs/deep/.env.production", secret)
	write("docs/deep/.git/config", secret)
	write("docs/new\nline.txt", "open to all")
	for name, to := range map[string]string{
		"out": "../secret.txt", "far": "/etc", "absolute": filepath.Join(top, "secret.txt"), "up": "..", "loop": "loop", "round": ".",
		"zero": "/dev/zero", "tty": "/dev/tty", "self": "/proc/self", "in": "open.txt",
	} {
		must(os.Symlink(to, filepath.Join(folder, name)))
	}
	must(syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600))
	must(syscall.Mkfifo(filepath.Join(folder, "deep", "pipe"), 0o600))
	return folder
}

// ways out of a folder, as paths.
var ways = []string{
	"..", "../secret.txt", "../../../../../../etc/passwd", "/etc/passwd", "//etc/passwd", "./../secret.txt", "deep/../../secret.txt",
	`..\secret.txt`, `deep\..\..\secret.txt`, "out", "far/passwd", "absolute", "up/secret.txt", "loop", "round/round/out", "zero", "tty",
	"self/environ", "pipe", "deep/pipe", ".env", "deep/.env.production", "deep/.git/config", "%2e%2e/secret.txt", "..%2fsecret.txt",
	"%252e%252e%252fsecret.txt", "..;/secret.txt", "..\x00/secret.txt", "open.txt\x00.png", "open.txt/../../secret.txt", "file:///etc/passwd",
	"\\\\?\\C:\\secret", "C:/secret.txt", "~/secret.txt", "$HOME/secret.txt", "․․/secret.txt", "．．/secret.txt", strings.Repeat("../", 500) + "etc/passwd",
	"deep/" + strings.Repeat("x/", 2000), strings.Repeat("x", 4000), "", ".", "/", "...", "open.txt/",
}

// The search tool of the demonstration service reads nothing outside of its folder and nothing
// that is hidden, and no pipe or device stops it.
func TestSearchStaysInItsFolder(t *testing.T) {
	t.Parallel()
	s := serve(t, "vitrine", "serve", "--addr", "127.0.0.1:0", "--root", trap(t))
	c := s.caller(t, attacker, "")
	for _, path := range append([]string{"in", "open.txt"}, ways...) {
		r := c.modern(t, 1, call{tool: "search_text", arguments: fmt.Sprintf(`{"pattern":".","path":%s}`, quote(path))})
		if strings.Contains(r.body, secret) || strings.Contains(r.body, "root:") {
			t.Errorf("the path %q leads out: %s", path, r.body)
		}
		if r.code() != 0 && r.code() != codeInvalidParams {
			t.Errorf("the path %q: %d %s", path, r.status, r.body)
		}
	}
	r := c.modern(t, 1, call{tool: "search_text", arguments: `{"pattern":"open to all"}`})
	if !strings.Contains(r.body, "open.txt") {
		t.Errorf("the folder itself: %s", r.body)
	}
	for _, pattern := range []string{`(?:(\pL|\w|h|a|y){0,40}!?){0,20}#`, strings.Repeat("(", 900), `\x{10ffff}{1000}`, "((a{100}){100}){100}", "\xff", ""} {
		if r := c.modern(t, 1, call{tool: "search_text", arguments: fmt.Sprintf(`{"pattern":%s}`, quote(pattern))}); r.status/100 == 5 {
			t.Errorf("the pattern %q: %d %s", pattern, r.status, r.body)
		}
	}
}
