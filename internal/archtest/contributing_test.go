package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is a block of Go code in a text, with the last file that the text before it
// names.
var quoted = regexp.MustCompile("(?s)`([a-z_/]+\\.go)`[^`]*?:\n\n```go\n(.*?)\n```")

// quoteFaults returns the quotes of a text that are not in the files which it names.
func quoteFaults(text string, files map[string][]byte) (faults []string, quotes int) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		quotes++
		if !strings.Contains(string(files[m[1]]), m[2]) {
			faults = append(faults, m[1]+" has no\n"+m[2])
		}
	}
	return faults, quotes
}

// The quotes in CONTRIBUTING.md are in the files that it names.
func TestContributingQuotesTheTree(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Adding a method\n")
	if !found {
		t.Fatal("CONTRIBUTING.md does not say how a method is added")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	faults, quotes := quoteFaults(section, goFiles(t))
	report(t, faults)
	if want := strings.Count(section, "```go"); quotes != want || quotes < 2 {
		t.Errorf("%d of %d examples name their file", quotes, want)
	}
}

// The rule finds each fault.
func TestQuoteFaults(t *testing.T) {
	files := map[string][]byte{"a/b.go": []byte("package b\n\nvar x = 1\n")}
	for text, want := range map[string]int{
		"in `a/b.go`:\n\n```go\nvar x = 1\n```\n": 0,
		"in `a/b.go`:\n\n```go\nvar x = 2\n```\n": 1,
		"in `a/c.go`:\n\n```go\nvar x = 1\n```\n": 1,
	} {
		if faults, quotes := quoteFaults(text, files); len(faults) != want || quotes != 1 {
			t.Errorf("%q: %q, %d quotes", text, faults, quotes)
		}
	}
}
