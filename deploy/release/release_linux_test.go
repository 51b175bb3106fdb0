package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A maker runs scripts/release.sh in a clone.
type maker struct{ clone, out string }

// make runs the script and returns what it said.
func (m maker) make(t *testing.T, settings ...string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.clone, "scripts", "release.sh"))
	cmd.Dir = m.clone
	cmd.Env = append(append(os.Environ(), "OUT="+m.out, "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH), settings...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// database writes a database of vulnerabilities with one entry, for a function of a library that is
// in the program.
func database(t *testing.T, function string) (url string) {
	t.Helper()
	dir := t.TempDir()
	const module, id = "github.com/prometheus/client_golang", "GO-2026-0001"
	for file, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": fmt.Sprintf(`[{"path":%q,"vulns":[{"id":%q,"modified":"2026-01-01T00:00:00Z"}]}]`, module, id),
		"index/vulns.json":   fmt.Sprintf(`[{"id":%q,"modified":"2026-01-01T00:00:00Z"}]`, id),
		"ID/" + id + ".json": fmt.Sprintf(`{"schema_version":"1.3.1","id":%q,"modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z","details":"a test","database_specific":{"url":"https://example.org/a-test"},
			"affected":[{"package":{"name":%q,"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":%q,"symbols":[%q]}]}}]}`, id, module, module+"/prometheus", function),
	} {
		file = filepath.Join(dir, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return "file://" + dir
}

// The script makes a release of a clean clone with all that is in reach. It fails if something is
// not in reach, and if a function with a known vulnerability is in the program. A draft says what
// it lacks.
func TestReleaseHasBillsPinsAndChecksums(t *testing.T) {
	needs.Long(t, "deploy/release")
	needs.Tool(t, "deploy/release", "git")
	if _, err := os.Stat("../../.git"); err != nil {
		needs.Skip(t, "deploy/release", "the source has no history")
	}
	m := maker{clone: filepath.Join(t.TempDir(), "clone"), out: filepath.Join(t.TempDir(), "dist")}
	said, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "../..", m.clone).CombinedOutput()
	require.NoError(t, err, "%s", said)
	keys := filepath.Join("deploy", "replicas", "state-keys.txt")
	require.NoError(t, os.WriteFile(filepath.Join(m.clone, keys), []byte("secret"), 0o600))
	mirror, digests := newMirror(t, images)
	unused := database(t, "NoSuchFunction")

	out, err := m.make(t, "VULNDB="+unused, "MIRROR="+mirror)
	require.NoError(t, err, out)
	program := fmt.Sprintf("vitrine-%s-%s", runtime.GOOS, runtime.GOARCH)
	bill, _ := readBOM(t, filepath.Join(m.out, program))
	require.Contains(t, versions(bill), "pkg:golang/github.com/prometheus/client_golang")
	require.NotContains(t, versions(bill), "pkg:golang/github.com/stretchr/testify")
	require.Len(t, *bill.Metadata.Component.Hashes, 1)
	var pinned []string
	for _, file := range pinnedFiles {
		pinned = append(pinned, filepath.Join(m.out, "deploy", file))
	}
	text := read(t, pinned)
	for image, digest := range digests {
		require.Contains(t, text, image+"@"+digest)
	}
	require.NoFileExists(t, filepath.Join(m.out, keys), "git ignores the keys of the replicas; a release must not publish them")
	require.ElementsMatch(t, strings.Split(read(t, []string{filepath.Join(m.out, "SHA256SUMS")}), "\n"), sums(t, m.out))

	out, err = m.make(t, "DRAFT=1", "VULNDB="+database(t, "Registry.Gather"), "MIRROR="+mirror)
	require.Error(t, err, out)
	require.Contains(t, out, "GO-2026-0001")

	require.NoError(t, os.WriteFile(filepath.Join(m.clone, "new.txt"), nil, 0o644))
	out, err = m.make(t, "VULNDB=file:///nowhere", "MIRROR=127.0.0.1:1")
	require.Error(t, err, out)
	require.Contains(t, out, "no release: working copy, vulnerabilities of "+runtime.GOOS+"/"+runtime.GOARCH+", digests of images")
	out, err = m.make(t, "DRAFT=1", "PLATFORMS= ", "VULNDB="+unused, "MIRROR=127.0.0.1:1")
	require.NoError(t, err, out)
	require.Contains(t, out, "a draft, not for publication:\nmissing: working copy: ")
	require.Contains(t, out, "\nmissing: digests of images: ")
}

// sums are the checksums of all files in a folder, as the lines that sha256sum prints.
func sums(t *testing.T, dir string) []string {
	t.Helper()
	all := []string{""} // after the last line
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == "SHA256SUMS" {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		all = append(all, fmt.Sprintf("%x  ./%s", sha256.Sum256(data), path))
		return err
	}))
	return all
}
