package lint

import (
	"bytes"
	"crypto/sha256"
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
)

const (
	repository = "../.."
	dockerfile = repository + "/deploy/container/Dockerfile"
)

// parseDockerfile returns the stages of the Dockerfile, and the arguments before them. The
// parser's lint must have nothing to say.
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

// TestImage: what is said about the image that is left.
func TestImage(t *testing.T) {
	build, final, args := parseDockerfile(t)
	mod, err := os.ReadFile(repository + "/go.mod")
	require.NoError(t, err)
	require.Equal(t, "golang:${GO_VERSION}", build.BaseName)
	require.Contains(t, string(mod), "\ngo "+*args[0].Args[0].Value+"\n", "the Go version of go.mod builds the image")
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

// TestContainer does what the Dockerfile says without a container engine: it builds twice,
// in two places, and gets the same bytes; and it runs them as the image would, in a root
// that cannot be written to, as a user who may do nothing.
func TestContainer(t *testing.T) {
	build, final, _ := parseDockerfile(t)
	for _, main := range []string{"./cmd/vitrine", "./examples/minimal"} {
		t.Run(main, func(t *testing.T) {
			one, two := buildImage(t, build, "MAIN="+main), buildImage(t, build, "MAIN="+main)
			require.Equal(t, digests(t, one), digests(t, two), "two builds differ")
			testContainer(t, final, one)
		})
	}
}

// buildImage executes the instructions of a stage and returns the folder from which the
// last stage copies.
func buildImage(t *testing.T, stage instructions.Stage, args ...string) (out string) {
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
			env = append(env, args...) // what is given wins
		case *instructions.CopyCommand:
			require.Empty(t, c.From)
			for _, source := range c.SourcePaths {
				copyContext(t, source, filepath.Join(dir, c.DestPath))
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

// copyContext copies a file or folder of the build context, of which .dockerignore leaves
// parts out. The history of the repository is left out too: it is large, and only goes
// into what --version says.
func copyContext(t *testing.T, source, dest string) {
	t.Helper()
	text, err := os.ReadFile(repository + "/.dockerignore")
	require.NoError(t, err)
	patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
	require.NoError(t, err)
	ignored, err := patternmatcher.New(append(patterns, ".git"))
	require.NoError(t, err)
	context := os.DirFS(repository)
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
		return os.WriteFile(filepath.Join(dest, path), data, 0o644)
	}))
}

// digests returns what the files of a folder are, and who may use them.
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
