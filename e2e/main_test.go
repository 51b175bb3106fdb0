package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs is the folder of the programs under test, and of the clients written in Go.
var programs string

func programFile(name string) string { return filepath.Join(programs, name) }

// TestMain builds the programs once.
func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vitrine-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	out := dir + string(filepath.Separator)
	for _, build := range []*exec.Cmd{
		exec.Command("go", "build", "-C", "..", "-o", out, "./cmd/everything", "./cmd/vitrine"),
		exec.Command("go", "build", "-race=false", "-o", out, "./peers/gosdk", "./peers/mcpgo"), // races in their libraries are not tested
	} {
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: build the programs:", err)
			return 1
		}
	}
	programs = dir
	return m.Run()
}
