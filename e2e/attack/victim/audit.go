package main

import (
	"context"
	"log"
	"os"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
)

// waitingRecords is how many records wait for a pipe.
const waitingRecords = 64

// A pipe is a sink of the audit that writes to a pipe. While nobody reads the pipe it hangs.
type pipe struct{ file *os.File }

// openAudit returns a log that writes to a pipe, or nil if there is no path.
func openAudit(path string, strict bool) (*audit.Log, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for a reader
	if err != nil {
		return nil, err
	}
	return audit.New(audit.Config{Sinks: []audit.Sink{pipe{file}}, MaxRecords: waitingRecords, Strict: strict})
}

// closeAudit closes a log. Records that nobody reads are lost.
func closeAudit(l *audit.Log) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		log.Print(err)
	}
}

// Name implements [audit.Sink].
func (p pipe) Name() string { return "pipe" }

// Write implements [audit.Sink].
func (p pipe) Write(ctx context.Context, entries []audit.Entry) (n int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.file.Close() }) // ends a write that hangs
	defer stop()
	for i := range entries {
		if _, err := p.file.Write(append(slices.Clone(entries[i].Line), '\n')); err != nil {
			return i, err
		}
	}
	return len(entries), nil
}

// Close implements [audit.Sink].
func (p pipe) Close() error { return p.file.Close() }
