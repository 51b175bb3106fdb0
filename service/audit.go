package service

import (
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

// newAudit returns the log of the configuration, or nil if there is none.
func newAudit(cfg AuditConfig) (*audit.Log, error) {
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
	file, err := auditfile.New(auditfile.Config{Path: cfg.File, MaxSize: cfg.MaxSize, MaxFiles: cfg.MaxFiles})
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
