// Package policy decides what callers may do by the rules of a file. A [Policy] is an
// [auth.Policy]. The conditions of the rules are expressions of the Common Expression Language
// (https://cel.dev) over the principal, the operation, its arguments and the caller. The page
// docs/policy.md describes the file for those who write it.
package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A Config configures a [Policy]. The zero value is the default.
type Config struct {
	// DryRun makes the whole file a dry run: what would be denied is counted and explained, and passes.
	DryRun bool
	// Hierarchy says which scopes include others. principal.scopes has those too.
	Hierarchy auth.Hierarchy
	// MaxFileBytes bounds the file (max_policy_file_bytes), and MaxRules the rules in it
	// (max_policy_rules), each of which is a value of a label of metrics. A file with more is an error. 0 is
	// 1 MiB and 1000.
	MaxFileBytes, MaxRules int
	// MaxCost bounds one evaluation of an expression (max_policy_cost), in steps of about 10 to 100 ns.
	// An evaluation that takes longer denies. 0 is 100,000.
	MaxCost uint64
	// MaxCostEstimate bounds what an expression may take at worst, as it is estimated when the file
	// is loaded (max_policy_cost_estimate). A file with a more expensive one is an error. 0 is 10,000,000.
	MaxCostEstimate uint64
	// MaxValues bounds how many values of the arguments of an operation are decoded for the rules, without
	// the members that no rule reads (max_policy_values). More of them deny. 0 is 10,000.
	MaxValues int
	// MaxDepth bounds the nesting of arguments that rules read (max_policy_depth). Deeper ones deny. 0 is 128.
	MaxDepth int
	// Interval is how often [Policy.Watch] looks at the file. 0 is 10 seconds.
	Interval time.Duration
	// OnReload is called after the file has changed, with nil if its new content is in use, and
	// otherwise with the reason. Then the rules from before stay in use. It is called once for each
	// change, by the goroutine of [Policy.Watch] or [Policy.Reload]. May be nil.
	OnReload func(error)
	// OnLimit is called with the name of a limit, such as [LimitValues], when a decision denies because of
	// it, and when a new content of the file is not used because of it. It must be quick and safe for
	// concurrent use. May be nil.
	OnLimit func(limit string)
}

func (c *Config) setDefaults() {
	c.setLimits()
	if c.Interval == 0 {
		c.Interval = 10 * time.Second
	}
	if c.OnReload == nil {
		c.OnReload = func(error) {}
	}
	if c.OnLimit == nil {
		c.OnLimit = func(string) {}
	}
}

// A Policy decides by the rules of a file. It is safe for concurrent use.
type Policy struct {
	cfg   Config
	path  string // "" if the rules are not from a file
	rules atomic.Pointer[ruleset]

	loading    sync.Mutex        // one reload at a time
	inUse, bad [sha256.Size]byte // digests of the content in use, and of the latest one with a mistake
	badError   error

	mu    sync.Mutex
	state Stats // without what the rules say
}

var _ auth.Policy = (*Policy)(nil)

// Open loads the rules of a file. The error names the line of a mistake. A program that changes the
// rules without a restart runs [Policy.Watch].
func Open(path string, cfg Config) (*Policy, error) {
	cfg.setDefaults()
	text, err := readBounded(path, cfg.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	p, err := parse(text, cfg)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", filepath.Base(path), err)
	}
	p.path = path
	return p, nil
}

// Parse returns a policy of rules that do not change, from the text of a file.
func Parse(text []byte, cfg Config) (*Policy, error) {
	p, err := parse(text, cfg)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

func parse(text []byte, cfg Config) (*Policy, error) {
	cfg.setDefaults()
	if err := cfg.Hierarchy.Check(); err != nil {
		return nil, err
	}
	p := &Policy{cfg: cfg}
	rules, err := compileFile(text, &cfg, nil)
	if err != nil {
		return nil, err
	}
	p.use(rules, sha256.Sum256(text))
	p.state.Reloads = 0
	return p, nil
}

// use takes rules into use.
func (p *Policy) use(rules *ruleset, digest [sha256.Size]byte) {
	p.inUse = digest
	p.rules.Store(rules)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.LoadedAt, p.state.Digest, p.state.ReloadError = time.Now(), hex.EncodeToString(digest[:8]), nil
	p.state.Reloads++
}

// Watch loads the file again whenever its content changes, until the context is done. If the new
// content has a mistake, or the file cannot be read, the rules from before stay in use; Config.OnReload
// and [Stats] say so.
func (p *Policy) Watch(ctx context.Context) {
	ticker := time.NewTicker(p.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = p.Reload() // OnReload and Stats have the error
		}
	}
}

// Reload loads the file again if its content has changed. It returns the reason why the present
// content of the file is not in use, or nil.
func (p *Policy) Reload() error {
	if p.path == "" {
		return nil
	}
	p.loading.Lock()
	defer p.loading.Unlock()
	text, err := readBounded(p.path, p.cfg.MaxFileBytes)
	if err != nil {
		return p.reject(err)
	}
	switch digest := sha256.Sum256(text); digest {
	case p.inUse:
		p.accept()
	case p.bad:
		return p.reject(p.badError)
	default:
		rules, err := compileFile(text, &p.cfg, p.rules.Load())
		if err != nil {
			p.cfg.tellLimit(err)
			p.bad, p.badError = digest, fmt.Errorf("policy %s: %w", filepath.Base(p.path), err)
			return p.reject(p.badError)
		}
		p.use(rules, digest)
		p.cfg.OnReload(nil)
	}
	return nil
}

// accept notes that the file has the content that is in use, also if it could not be read before.
func (p *Policy) accept() {
	p.mu.Lock()
	before := p.state.ReloadError
	p.state.ReloadError = nil
	p.mu.Unlock()
	if before != nil {
		p.cfg.OnReload(nil)
	}
}

// reject keeps the rules and says why, once for each reason.
func (p *Policy) reject(err error) error {
	p.mu.Lock()
	before := p.state.ReloadError
	known := before != nil && before.Error() == err.Error()
	p.state.ReloadError = err
	if !known {
		p.state.FailedReloads++
	}
	p.mu.Unlock()
	if !known {
		p.cfg.OnReload(err)
	}
	return err
}

// readBounded reads a regular file, and of one that is too large no more than shows that.
func readBounded(path string, most int) ([]byte, error) {
	// Opening a named pipe would wait for its writer.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New(path + " is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}
