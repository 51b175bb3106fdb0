package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The commands of README.md that call the server, one block for each era, run in a shell. Only
// the address is another one.
func TestReadmeCommandsWork(t *testing.T) {
	needs.Tool(t, "e2e/readme", "curl", "sh", "tr", "awk")
	const address = "127.0.0.1:8080"
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	eras := map[string]string{modernVersion: "", legacyVersion: ""} // and the block of each
	for version := range eras {
		for _, b := range blocks {
			if strings.Contains(b[1], "MCP-Protocol-Version: "+version) && strings.Contains(b[1], address) {
				eras[version] = b[1]
			}
		}
	}
	p := start(t, program{path: programFile("vitrine"), args: []string{
		"serve", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
	}, dir: t.TempDir()})
	url := pasteable(t, p).URL
	for version, block := range eras {
		t.Run(version, func(t *testing.T) {
			if block == "" {
				t.Fatal("README.md has no call of this revision")
			}
			pasted := exec.CommandContext(t.Context(), "sh", "-eu")
			pasted.Stdin = strings.NewReader(strings.ReplaceAll(block, "http://"+address+"/mcp", url))
			out, err := pasted.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.TrimSpace(string(out)); !strings.HasPrefix(got, `{"jsonrpc":"2.0",`) || strings.Contains(got, "\n") ||
				!strings.Contains(got, `"text":"hello"`) || strings.Contains(got, `"isError":true`) {
				t.Errorf("the answer is not that of echo: %s", got)
			}
		})
	}
}
