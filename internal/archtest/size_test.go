package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// maxSmallProgram bounds the program of testdata/small, built as the container's is, in bytes:
// a server and its telemetry, without exporters. A commit that raises the bound says what needs the room.
const maxSmallProgram = 16_040_000

// A program that exports nothing contains no exporter.
func TestSmallProgramIsSmall(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		needs.Skip(t, "internal/archtest/size", "programs have other sizes elsewhere")
	}
	needs.Long(t, "internal/archtest/size") // -trimpath compiles everything once more
	goFiles(t)
	program := filepath.Join(t.TempDir(), "small")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", program, "./internal/archtest/testdata/small")
	cmd.Dir, cmd.Env = moduleRoot(t), append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxSmallProgram {
		t.Errorf("a server with its telemetry has %d bytes, %d are allowed: see what it links with go list -deps", info.Size(), maxSmallProgram)
	}
}
