package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
)

// A buffer is a sink in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) Name() string { return "buffer" }

func (b *buffer) Write(_ context.Context, entries []audit.Entry) (int, error) {
	for _, e := range entries {
		b.Buffer.Write(append(e.Line, '\n'))
	}
	return len(entries), nil
}

func (*buffer) Close() error { return nil }

// A program that is no server of this module records an operation itself. A changed line is found.
func Example() {
	key := bytes.Repeat([]byte{7}, audit.MinKeyBytes) // 32 random bytes of a file
	var records buffer
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{&records}, Key: key})
	if err != nil {
		panic(err)
	}
	log.Add(audit.Record{
		Time: time.Now(), Principal: &auth.Principal{Subject: "ann"}, Operation: "tools/call", Target: "delete_file",
		Arguments: []byte(`{"path":"/etc/passwd"}`), Decision: audit.DecisionDeny, Rule: "no_deletes",
		Stage: audit.StagePolicy, Outcome: audit.OutcomeRefused,
	})
	if err := log.Close(context.Background()); err != nil {
		panic(err)
	}
	for _, text := range []string{records.String(), strings.ReplaceAll(records.String(), "ann", "bob")} {
		v, err := audit.NewVerifier(key, 1)
		if err != nil {
			panic(err)
		}
		if err := v.Read("audit.jsonl", strings.NewReader(text)); err != nil {
			panic(err)
		}
		result := v.Result()
		fmt.Println(result.Lines, result.Closed, result.Faults)
	}

	// Output:
	// 3 true []
	// 2 true [audit.jsonl:2: the code is wrong: the line was changed, or has another key audit.jsonl:3: the lines 2 to 2 are missing]
}
