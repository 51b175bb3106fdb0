package attack

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	long = flag.Bool("long", false, "run the floods at their full length")
	// short floods can be longer, to measure with.
	length = flag.Duration("length", 700*time.Millisecond, "how long each flood of the short form goes on")
)

// patience is how long a test waits for what must happen.
const patience = 45 * time.Second

// programs is the folder of the programs under attack.
var programs string

// TestMain builds the programs once.
func TestMain(m *testing.M) {
	flag.Parse()
	if *floodKind != "" {
		os.Exit(runFlood())
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vitrine-attack-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	out := dir + string(filepath.Separator)
	for _, build := range []*exec.Cmd{
		// Bounds of CPU and memory are those of a program without the race detector.
		exec.Command("go", "build", "-race=false", "-o", out, "./victim"),
		exec.Command("go", "build", "-C", "../..", "-race=false", "-o", out, "./cmd/vitrine"),
	} {
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "attack: build the programs:", err)
			return 1
		}
	}
	programs = dir
	return m.Run()
}

// eventually waits until check returns no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", patience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// writeFile writes a file that lives as long as the test, and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
