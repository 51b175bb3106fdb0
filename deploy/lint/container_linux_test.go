package lint

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

const (
	repository = "../.."
	dockerfile = repository + "/deploy/container/Dockerfile"
)

// parseDockerfile returns the stages of the Dockerfile, and the arguments before them. The
// parser's lint must find nothing.
func parseDockerfile(t *testing.T) (build, final instructions.Stage, args []instructions.ArgCommand) {
	t.Helper()
	text, err := os.ReadFile(dockerfile)
	require.NoError(t, err)
	file, err := parser.Parse(bytes.NewReader(text))
	require.NoError(t, err)
	require.Empty(t, file.Warnings)
	stages, args, err := instructions.Parse(file.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, where []parser.Range) {
			t.Errorf("%s:%d: %s: %s", dockerfile, where[0].Start.Line, rule, message)
		},
	}))
	require.NoError(t, err)
	require.Len(t, stages, 2)
	return stages[0], stages[1], args
}

// command returns the one instruction of its kind in a stage.
func command[C instructions.Command](t *testing.T, stage instructions.Stage) (found C) {
	t.Helper()
	n := 0
	for _, c := range stage.Commands {
		if c, is := c.(C); is {
			found = c
			n++
		}
	}
	require.Equal(t, 1, n, "%T in stage %s", found, stage.BaseName)
	return found
}

// What the Dockerfile says about the final image.
func TestImageIsAsDocumented(t *testing.T) {
	build, final, args := parseDockerfile(t)
	mod, err := os.ReadFile(repository + "/go.mod")
	require.NoError(t, err)
	require.Equal(t, "${GO_IMAGE}", build.BaseName)
	version, isGo := strings.CutPrefix(*args[0].Args[0].Value, "golang:")
	require.True(t, isGo, "another image")
	require.Contains(t, string(mod), "\ntoolchain go"+version+"\n", "the toolchain of go.mod builds the image")
	require.Equal(t, "scratch", final.BaseName)
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, command[*instructions.UserCommand](t, final).User, "there are no names in the image")
	require.Equal(t, "SIGTERM", command[*instructions.StopSignalCommand](t, final).Signal)
	require.False(t, command[*instructions.EntrypointCommand](t, final).PrependShell, "there is no shell in the image")
	require.False(t, command[*instructions.CmdCommand](t, final).PrependShell)
	health := command[*instructions.HealthCheckCommand](t, final).Health
	require.Equal(t, "CMD", health.Test[0], "there is no shell in the image")
	const ownTimeout = 5 * time.Second // of --healthcheck
	require.Greater(t, health.Timeout, ownTimeout)
}

// The steps of the Dockerfile without a container engine: two builds in two places give the same
// bytes. They run as the image would, in a read-only root, as a user without privileges.
func TestContainerBuildIsReproducible(t *testing.T) {
	build, final, _ := parseDockerfile(t)
	for _, main := range []string{"./cmd/vitrine", "./examples/minimal"} {
		t.Run(main, func(t *testing.T) {
			one, two := buildImage(t, build, repository, "MAIN="+main), buildImage(t, build, repository, "MAIN="+main)
			require.Equal(t, digests(t, one), digests(t, two), "two builds differ")
			testContainer(t, final, one)
		})
	}
}

// Two clones are built, with the history that a working copy has at hand. The bytes are the same,
// and name the revision, which is not a modified one.
func TestCloneNamesItsRevision(t *testing.T) {
	needs.Tool(t, "deploy/container", "git")
	head := strings.TrimSpace(git(t, repository, "rev-parse", "HEAD"))
	build, _, _ := parseDockerfile(t)
	var built []string
	for range 2 {
		clone := filepath.Join(t.TempDir(), "clone")
		git(t, repository, "clone", "--quiet", ".", clone)
		built = append(built, buildImage(t, build, clone, "MAIN=./cmd/vitrine"))
	}
	require.Equal(t, digests(t, built[0]), digests(t, built[1]), "two builds differ")

	program := filepath.Join(built[0], "server")
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	require.Equal(t, head, settings["vcs.revision"])
	require.Equal(t, "false", settings["vcs.modified"], "the context lacks a file, or its mode")
	said, err := exec.CommandContext(t.Context(), program, "--version").Output()
	require.NoError(t, err)
	require.Contains(t, string(said), "("+head[:12]+" ")
}

// git runs git in a folder and returns its output. It skips the test if the folder has no history.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repository, ".git")); err != nil {
		needs.Skip(t, "deploy/container", "the source has no history")
	}
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	said, err := cmd.Output()
	require.NoError(t, err, "git %v", args)
	return string(said)
}

// buildImage executes the instructions of a stage, with a folder for its context, and
// returns the folder from which the last stage copies.
func buildImage(t *testing.T, stage instructions.Stage, context string, args ...string) (out string) {
	t.Helper()
	root := t.TempDir()
	out = filepath.Join(root, "out")
	dir := root
	env := append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
	for _, c := range stage.Commands {
		switch c := c.(type) {
		case *instructions.WorkdirCommand:
			dir = filepath.Join(root, c.Path)
			require.NoError(t, os.MkdirAll(dir, 0o755))
		case *instructions.ArgCommand:
			for _, a := range c.Args {
				if a.Value != nil {
					env = append(env, a.Key+"="+*a.Value)
				}
			}
			env = append(env, args...) // the given ones win
		case *instructions.CopyCommand:
			require.Empty(t, c.From)
			for _, source := range c.SourcePaths {
				copyContext(t, context, source, filepath.Join(dir, c.DestPath))
			}
		case *instructions.RunCommand:
			require.True(t, c.PrependShell)
			line := strings.ReplaceAll(strings.Join(c.CmdLine, " "), " /out/", " "+out+"/")
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
			cmd.Dir, cmd.Env = dir, env
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s", line, said)
		default:
			t.Fatalf("the test does not know how to do %s", c.Name())
		}
	}
	return out
}

// copyContext copies a file or folder of the build context without the parts that .dockerignore
// excludes. It also leaves out the history of the working copy, which may be modified;
// TestCloneNamesItsRevision covers the history.
func copyContext(t *testing.T, from, source, dest string) {
	t.Helper()
	text, err := os.ReadFile(repository + "/.dockerignore")
	require.NoError(t, err)
	patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
	require.NoError(t, err)
	if from == repository {
		patterns = append(patterns, ".git")
	}
	ignored, err := patternmatcher.New(patterns)
	require.NoError(t, err)
	context := os.DirFS(from)
	require.NoError(t, fs.WalkDir(context, source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		out, err := ignored.MatchesOrParentMatches(path)
		switch {
		case err != nil:
			return err
		case out && entry.IsDir():
			return fs.SkipDir
		case out:
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dest, path), 0o755)
		}
		data, err := fs.ReadFile(context, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dest, path), data, info.Mode().Perm())
	}))
}

// digests returns the digests and the permissions of the files in a folder.
func digests(t *testing.T, dir string) map[string]any {
	t.Helper()
	type file struct {
		mode fs.FileMode
		sum  [sha256.Size]byte
	}
	all := map[string]any{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{mode: info.Mode()}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.sum = sha256.Sum256(data)
		}
		name, err := filepath.Rel(dir, path)
		all[name] = f
		return err
	}))
	return all
}
