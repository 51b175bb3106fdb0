package evaluate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// enough are more steps than any test here needs.
const enough = 1 << 24

var drafts = map[string]*jsv.Draft{
	"draft4": jsv.Draft4, "draft6": jsv.Draft6, "draft7": jsv.Draft7, "draft2019-09": jsv.Draft2019, "draft2020-12": jsv.Draft2020,
}

// A group is one schema of the JSON Schema Test Suite with its tests.
type group struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// moduleDir returns the folder of a module that the main module needs, with its test data.
func moduleDir(t *testing.T, path string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	require.NoError(t, err)
	dir := strings.TrimSpace(string(out))
	require.NotEmpty(t, dir, "the module must be in the module cache")
	return dir
}

// suites are folders with a copy of the official suite (google/jsonschema-go) and with more tests of
// the same form (the compiler's own).
func suites(t *testing.T) map[string]string {
	google := filepath.Join(moduleDir(t, "github.com/google/jsonschema-go"), "jsonschema", "testdata")
	extra := filepath.Join(moduleDir(t, "github.com/santhosh-tekuri/jsonschema/v6"), "testdata", "Extra-Test-Suite")
	return map[string]string{google: filepath.Join(google, "remotes"), filepath.Join(extra, "tests"): filepath.Join(extra, "remotes")}
}

// remotes serves the documents of a suite to which schemas refer.
type remotes string

func (r remotes) Load(url string) (any, error) {
	path, ok := strings.CutPrefix(url, "http://localhost:1234")
	if !ok {
		return nil, fmt.Errorf("no such document: %s", url)
	}
	f, err := os.Open(filepath.Join(string(r), filepath.FromSlash(path)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return jsv.UnmarshalJSON(f)
}

// A pair is one schema as the compiler evaluates it and as this package does.
type pair struct {
	compiled *jsv.Schema
	program  *evaluate.Program
}

const testURL = "http://suite.example/schema.json"

func compile(raw []byte, draft *jsv.Draft, load jsv.URLLoader, assert bool) (p pair, err error) {
	doc, err := jsv.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return p, err
	}
	c := jsv.NewCompiler()
	c.DefaultDraft(draft)
	if load != nil {
		c.UseLoader(load)
	}
	if assert {
		c.AssertFormat()
	}
	if err := c.AddResource(testURL, doc); err != nil {
		return p, err
	}
	if p.compiled, err = c.Compile(testURL); err != nil {
		return p, err
	}
	p.program, err = evaluate.Compile(c, testURL, doc)
	return p, err
}

// verdicts returns what the compiler's evaluation and this package say about a value.
func (p pair) verdicts(t *testing.T, raw []byte) (theirs, ours bool) {
	value, err := jsv.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	findings, more, err := p.program.Run(context.Background(), raw, enough)
	require.NoError(t, err, "%s", raw)
	require.LessOrEqual(t, len(findings), evaluate.MaxFindings)
	require.False(t, more && len(findings) < evaluate.MaxFindings)
	return p.compiled.Validate(value) == nil, len(findings) == 0
}

// TestSuite runs the official tests of 2020-12 and draft-07, and tests of the compiler for other drafts.
func TestSuite(t *testing.T) {
	count := 0
	for dir, remote := range suites(t) {
		for name, draft := range drafts {
			eachGroup(t, filepath.Join(dir, name), func(file string, g group) {
				p, err := compile(g.Schema, draft, remotes(remote), strings.Contains(file, "format"))
				require.NoError(t, err, "%s %s", file, g.Description)
				for _, test := range g.Tests {
					count++
					theirs, ours := p.verdicts(t, test.Data)
					if theirs == test.Valid { // else a format that the compiler does not have
						require.Equal(t, test.Valid, ours, "%s: %s: %s", file, g.Description, test.Description)
					}
					require.Equal(t, theirs, ours, "%s: %s: %s", file, g.Description, test.Description)
				}
			})
		}
	}
	require.Greater(t, count, 2000, "the suites must be there")
}

// TestSuiteInOtherDrafts evaluates each schema of the suites in each draft, for all values of its file,
// and compares with the compiler.
func TestSuiteInOtherDrafts(t *testing.T) {
	count := 0
	for dir, remote := range suites(t) {
		for folder := range drafts {
			values := map[string][]json.RawMessage{}
			eachGroup(t, filepath.Join(dir, folder), func(file string, g group) {
				for _, test := range g.Tests {
					values[file] = append(values[file], test.Data)
				}
			})
			for name, draft := range drafts {
				eachGroup(t, filepath.Join(dir, folder), func(file string, g group) {
					p, err := compile(withoutDialect(g.Schema), draft, remotes(remote), true)
					if err != nil {
						return // not a schema of that draft
					}
					for _, value := range values[file] {
						count++
						theirs, ours := p.verdicts(t, value)
						require.Equal(t, theirs, ours, "%s of %s as %s: %s for %s", g.Description, file, name, g.Schema, value)
					}
				})
			}
		}
	}
	t.Logf("%d comparisons", count)
}

// withoutDialect takes $schema from the root.
func withoutDialect(raw json.RawMessage) []byte {
	var doc map[string]json.RawMessage
	if json.Unmarshal(raw, &doc) != nil {
		return raw
	}
	delete(doc, "$schema")
	out, _ := json.Marshal(doc)
	return out
}

func eachGroup(t *testing.T, dir string, visit func(file string, g group)) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return nil
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		var groups []group
		require.NoError(t, json.Unmarshal(raw, &groups), path)
		for _, g := range groups {
			visit(path, g)
		}
		return nil
	})
	require.NoError(t, err)
}
