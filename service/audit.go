package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
)

// AuditConfig has the settings of the record of what callers do; see package audit.
type AuditConfig struct {
	// File is the path of the record, as JSON lines. With MaxSize, in MiB, it is rotated, and MaxFiles
	// older files are kept; 0 stands for the defaults of [auditfile.Config].
	File              string
	MaxSize, MaxFiles int
	// KeyFile is the path of the key ([audit.ReadKey]) of the digests of arguments and of the chain that
	// shows whether somebody has changed the file.
	KeyFile string
	// Strict serves no call without its record: calls are refused while records cannot be kept.
	Strict bool
}

// newAudit returns the log of the configuration, or nil if there is none. checkOnly is for a process that serves nothing: it
// checks the configuration and returns a log that keeps no records.
func newAudit(cfg AuditConfig, checkOnly bool) (*audit.Log, error) {
	if cfg.File == "" {
		return nil, nil
	}
	c := audit.Config{Strict: cfg.Strict, Logger: slog.Default()}
	if cfg.KeyFile != "" {
		key, err := audit.ReadKey(cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		c.Key = key
	}
	at := auditfile.Config{Path: cfg.File, MaxSize: cfg.MaxSize, MaxFiles: cfg.MaxFiles}
	if checkOnly {
		if err := auditfile.Check(at); err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		// Without a key there is no chain, and the log has no head that "vitrine audit verify" would look for.
		return audit.New(audit.Config{Sinks: []audit.Sink{noRecords{}}})
	}
	file, err := auditfile.New(at)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	c.Sinks = []audit.Sink{file}
	log, err := audit.New(c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("service: %w", err), file.Close())
	}
	return log, nil
}

// noRecords is a sink that keeps nothing.
type noRecords struct{}

// Name implements [audit.Sink].
func (noRecords) Name() string { return "none" }

// Write implements [audit.Sink].
func (noRecords) Write(_ context.Context, entries []audit.Entry) (int, error) {
	return len(entries), nil
}

// Close implements [audit.Sink].
func (noRecords) Close() error { return nil }
