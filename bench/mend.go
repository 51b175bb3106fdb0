package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goSDK is the module that is mended: for each message it makes a decoder with a buffer of
// 32 KiB, which is most of its cost. The bench also measures it without that, so that one
// mistake is not taken for the cost of the design.
const goSDK = "github.com/modelcontextprotocol/go-sdk"

// An edit replaces text that occurs in a file once.
type edit struct{ old, new string }

// mendedFile is the file that makes the decoder, and mendedEdits are the edits. They fail if the
// module has changed in these lines.
var (
	mendedFile  = filepath.Join("internal", "json", "json.go")
	mendedEdits = []edit{
		{"\t\"bytes\"\n", ""},
		{
			"return NewDecoder(bytes.NewReader(data)).Decode(v)",
			"_, err := json.Parse(data, v, json.DontMatchCaseInsensitiveStructFields)\n\treturn err",
		},
	}
)

// apply makes the edits, or none of them.
func apply(text []byte, edits []edit) ([]byte, error) {
	for _, e := range edits {
		if n := bytes.Count(text, []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%q is there %d times, not once", e.old, n)
		}
		text = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
	}
	return text, nil
}

// buildMended builds this program with a mended copy of the module, all below a folder, and
// returns the path of the program. It must run in the folder of its source, as with go run.
func buildMended(dir string) (exe string, err error) {
	answer, err := goTool("mod", "download", "-json", goSDK) // go list -m knows no folder before the download
	if err != nil {
		return "", err
	}
	var original struct{ Dir string }
	if err := json.Unmarshal([]byte(answer), &original); err != nil {
		return "", err
	}
	module := filepath.Join(dir, "go-sdk")
	if err := os.CopyFS(module, os.DirFS(original.Dir)); err != nil {
		return "", err
	}
	file := filepath.Join(module, mendedFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if text, err = apply(text, mendedEdits); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return "", err
	}
	// A go.mod of its own, because files in the module cache cannot be overlaid.
	modfile := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("%w: run this in its folder", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	if _, err := goTool("mod", "edit", "-replace", goSDK+"="+module, modfile); err != nil {
		return "", err
	}
	exe = filepath.Join(dir, "bench-mended")
	_, err = goTool("build", "-modfile", modfile, "-o", exe, ".")
	return exe, err
}

// goTool runs the go command and returns what it prints.
func goTool(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
