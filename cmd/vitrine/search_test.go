package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// newTestSearcher returns a searcher over a fresh folder that holds the given files.
func newTestSearcher(t *testing.T, files map[string]string) (*searcher, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	s, err := newSearcher(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s, dir
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hits writes the matches as path:line, in their order.
func hits(out searchOutput) string {
	var list []string
	for _, m := range out.Matches {
		list = append(list, fmt.Sprintf("%s:%d", m.Path, m.Line))
	}
	return strings.Join(list, " ")
}

var tree = map[string]string{
	"README.md":             "The needle.\n",
	"a.go":                  "package a\n\n// needle\nvar x = 1 // needle again\r\n",
	"b/c.go":                "needle",
	"b/c.txt":               "no\nNEEDLE\n",
	"b/dir/d.go":            "nothing here\n",
	"empty.go":              "",
	".git/config":           "needle\n",
	"b/.git":                "needle\n",
	"b/node_modules/x/i.go": "needle\n",
	"nul.bin":               "needle\x00needle\n",
	"bom.md":                "\ufeffneedle at the start\n",
	"latin1.txt":            "needle caf\xe9\n",
	"z/late.bin":            strings.Repeat("x", searchSniffBytes) + "\x00\nneedle\n",
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name string
		in   searchInput
		want string
	}{
		{"everything, in order", searchInput{Pattern: "needle"},
			"README.md:1 a.go:3 a.go:4 b/c.go:1 bom.md:1 latin1.txt:1 z/late.bin:2"},
		{"glob", searchInput{Pattern: "needle", Include: "*.go"}, "a.go:3 a.go:4 b/c.go:1"},
		{"ignoring case", searchInput{Pattern: "needle", Path: "b", IgnoreCase: true}, "b/c.go:1 b/c.txt:2"},
		{"one folder", searchInput{Pattern: "needle", Path: "b"}, "b/c.go:1"},
		{"one folder, untidy", searchInput{Pattern: "needle", Path: "./b/dir/../"}, "b/c.go:1"},
		{"one file", searchInput{Pattern: "needle", Path: "a.go"}, "a.go:3 a.go:4"},
		{"end of line before CRLF", searchInput{Pattern: "again$"}, "a.go:4"},
		{"start of line after a byte order mark", searchInput{Pattern: "^needle at"}, "bom.md:1"},
		{"empty lines", searchInput{Pattern: "^$", Include: "*.go"}, "a.go:2"},
		{"nothing", searchInput{Pattern: "no such thing"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := newTestSearcher(t, tree)
			out, err := s.search(t.Context(), c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := hits(out); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if out.Truncated {
				t.Error("truncated")
			}
		})
	}
}

func TestSearchCounts(t *testing.T) {
	s, _ := newTestSearcher(t, map[string]string{"a": "12345", "b": "123", "c": "1\x00", "d": ""})
	out, err := s.search(t.Context(), searchInput{Pattern: "nothing"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(out)
	if want := `{"matches":[],"filesSearched":3,"bytesSearched":8,"truncated":false}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Hidden files often have secrets in them. A folder whose name begins with two dots is how Kubernetes
// mounts files.
func TestHiddenFilesAreNotSearched(t *testing.T) {
	s, dir := newTestSearcher(t, map[string]string{
		".env": "needle\n", ".ssh/id": "needle\n", "a/.netrc": "needle\n", "..2026_11_22/note": "needle\n", "b": "needle\n",
	})
	all, err := newSearcher(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer all.close()
	for _, tt := range []struct {
		s    *searcher
		want string
	}{
		{s, "..2026_11_22/note b"},
		{all, "..2026_11_22/note .env .ssh/id a/.netrc b"},
	} {
		out, err := tt.s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, m := range out.Matches {
			paths = append(paths, m.Path)
		}
		if got := strings.Join(paths, " "); got != tt.want {
			t.Errorf("hidden %t: found %q, want %q", tt.s.hidden, got, tt.want)
		}
	}
	for _, path := range []string{".env", ".ssh", ".ssh/id", "a/.netrc"} {
		if _, err := s.search(t.Context(), searchInput{Pattern: "x", Path: path}, nil); err == nil || !strings.Contains(err.Error(), "hidden files and folders") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSearchInputErrors(t *testing.T) {
	s, _ := newTestSearcher(t, map[string]string{
		"a.go": "x", ".git/config": "x", "nul": "x\x00", "big": strings.Repeat("x", searchMaxFileBytes+1),
	})
	abs, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   searchInput
		want string // part of the error
	}{
		{searchInput{}, "pattern is empty"},
		{searchInput{Pattern: "a(b"}, `"a(b" is not a regular expression in Go (RE2) syntax: missing closing )`},
		{searchInput{Pattern: "a)|(b", IgnoreCase: true}, "unexpected )"},
		{searchInput{Pattern: "(?=x)"}, "RE2"},
		{searchInput{Pattern: "x{2000}"}, "invalid repeat count"},
		{searchInput{Pattern: strings.Repeat(`(\pL{100}){10}`, 11)}, "smaller repetition counts"},
		{searchInput{Pattern: strings.Repeat("x", searchMaxPattern+1)}, "search for less at a time"},
		{searchInput{Pattern: "x", MaxMatches: -1}, "from 1 to 1000"},
		{searchInput{Pattern: "x", Include: "[a"}, "is not a glob"},
		{searchInput{Pattern: "x", Include: "**/*.go"}, "file name only"},
		{searchInput{Pattern: "x", Path: abs}, "is absolute"},
		{searchInput{Pattern: "x", Path: "/etc"}, "is absolute"},
		{searchInput{Pattern: "x", Path: ".."}, "leaves the root folder"},
		{searchInput{Pattern: "x", Path: "a/../../b"}, "leaves the root folder"},
		{searchInput{Pattern: "x", Path: "no/such"}, "does not exist under the root folder"},
		{searchInput{Pattern: "x", Path: "a.go/b"}, `path "a.go/b"`},
		{searchInput{Pattern: "x", Path: "a\x00b"}, "cannot be searched"},
		{searchInput{Pattern: "x", Path: ".git/config"}, "are not searched"},
		{searchInput{Pattern: "x", Path: "nul"}, "binary"},
		{searchInput{Pattern: "x", Path: "big"}, "larger than"},
	} {
		_, err := s.search(t.Context(), c.in, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.in, err, c.want)
		}
	}
}

// Links lead out of the root and to files inside it. A file inside is found once, a file outside
// never.
func TestSearchStaysInRoot(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "secret.txt"), "needle\n")
	s, dir := newTestSearcher(t, map[string]string{"in/real.txt": "needle\n"})
	for link, target := range map[string]string{
		"file":    filepath.Join(outside, "secret.txt"),
		"folder":  outside,
		"up":      "../" + filepath.Base(outside),
		"loop":    ".",
		"inside":  "in",
		"in/link": "real.txt",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			needs.Skip(t, "vitrine/search", "no symbolic links here")
		}
	}
	out, err := s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hits(out); got != "in/real.txt:1" || out.FilesSearched != 1 {
		t.Errorf("got %q in %d files, want in/real.txt:1 alone", got, out.FilesSearched)
	}
	for _, p := range []string{"file", "folder", "folder/secret.txt", "up"} {
		if out, err := s.search(t.Context(), searchInput{Pattern: "needle", Path: p}, nil); err == nil {
			t.Errorf("path %q: got %q, want an error", p, hits(out))
		}
	}
	if out, err := s.search(t.Context(), searchInput{Pattern: "needle", Path: "inside"}, nil); err != nil || hits(out) != "inside/real.txt:1" {
		t.Errorf("a link to a folder inside the root: got %q, %v", hits(out), err)
	}

	// A file that turns into a link after it was listed.
	q, err := newQuery(t.Context(), searchInput{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.file(s.root, "file"); err == nil || len(q.out.Matches) > 0 {
		t.Errorf("a link out of the root was read: %v, %v", q.out.Matches, err)
	}
}

func TestSearchSkipsWhatItMayNotRead(t *testing.T) {
	s, dir := newTestSearcher(t, map[string]string{
		"a/x": "needle\n", "b": "needle\n", "c": "needle\n",
		"big": "needle\n" + strings.Repeat("x", searchMaxFileBytes),
	})
	for _, name := range []string{"a", "b"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "a"), 0o755) })
	want := "c:1"
	if f, err := os.Open(filepath.Join(dir, "b")); err == nil { // root may read anything
		f.Close()
		want = "a/x:1 b:1 c:1"
	}
	out, err := s.search(t.Context(), searchInput{Pattern: "needle"}, nil)
	if err != nil || hits(out) != want {
		t.Errorf("got %q, %v, want %q", hits(out), err, want)
	}
}

func TestNewSearcherErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	writeFile(t, name, "x")
	for _, dir := range []string{name, name + "-missing"} {
		if _, err := newSearcher(dir, false); err == nil {
			t.Errorf("%s: no error", dir)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog\n", 1000) + "func (f *file) Close() error {\n"
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.go", i)), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s, err := newSearcher(dir, false)
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	for b.Loop() {
		out, err := s.search(b.Context(), searchInput{Pattern: `func \(.*\) Close`, Include: "*.go"}, nil)
		if err != nil || len(out.Matches) != 100 {
			b.Fatal(len(out.Matches), err)
		}
		b.SetBytes(out.BytesSearched)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("needle", "hay\nneedle\r\n\xff", false)
	f.Add("(a|b)*$", "aab\n\nb", true)
	f.Add("^$", "\ufeff\n", false)
	dir := f.TempDir()
	s, err := newSearcher(dir, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.close() })
	f.Fuzz(func(t *testing.T, pattern, text string, ignoreCase bool) {
		in := searchInput{Pattern: pattern, IgnoreCase: ignoreCase}
		q, err := newQuery(t.Context(), in)
		if err != nil {
			return // not a pattern
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			direct := q.re.MatchString(line)
			reader := q.re.MatchReader(&lineReader{query: q, line: []byte(line)})
			if direct != reader {
				t.Errorf("%q on %q: %t directly, %t rune by rune", pattern, line, direct, reader)
			}
			if cut := cutText([]byte(line)); !utf8.ValidString(cut) || utf8.RuneCountInString(cut) > searchMaxTextRunes {
				t.Errorf("%q was cut to %q", line, cut)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := s.search(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count([]byte(text), []byte("\n")) + 1
		for _, m := range out.Matches {
			if m.Line < 1 || m.Line > lines {
				t.Errorf("line %d of %d", m.Line, lines)
			}
		}
	})
}
