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
// a server and its telemetry, without exporters.
const maxSmallProgram = 15_920_000 // tasks that begin again 90 KB, rate limits of replicas 33 KB (the linker rounds up), the link between replicas 95 KB, tasks of replicas 55 KB, their streams of events 50 KB, pages of events and limits 40 KB, authorization and the audit took 210 KB, shares of callers and their metrics 60 KB, the evaluation of schemas 150 KB, the budget of memory 30 KB, the ends of stored answers 10 KB, records in place of spans 65 KB, turns of callers 33 KB, questions by client 14 KB, phases by middleware 15 KB, what has changed 125 KB, classes, groups, filters and shares of recent requests 65 KB, what operators do to requests 20 KB, sealed sessions 90 KB (the linker rounds up), changes of lists and ends of streams 45 KB, callers of ended streams 38 KB, own streams of replicas and linked traces 67 KB, questions by era and limits of all parts 25 KB

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
