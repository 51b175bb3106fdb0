package auditfile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file, err := auditfile.New(auditfile.Config{Path: filepath.Join(dir, "audit.jsonl"), MaxSize: 50, MaxDays: 90})
	if err != nil {
		panic(err)
	}
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{file}})
	if err != nil {
		panic(err)
	}
	// server.WithAudit(log) records what callers do.
	log.Add(audit.Record{Operation: "tools/call", Target: "forecast", Outcome: audit.OutcomeOK})
	if err := log.Close(context.Background()); err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	fmt.Println(strings.Contains(string(text), `"target":"forecast"`), err)

	// Output:
	// true <nil>
}
