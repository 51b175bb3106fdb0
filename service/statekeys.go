package service

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/vitrine-mcp/vitrine/internal/reload"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// stateKeys is the name of an environment variable. It is no flag because all users of a machine
// can read the arguments of a process.
const stateKeys = "state-keys"

// Keys are secrets. When they are printed or logged, only their number is shown.
type Keys [][]byte

// String implements fmt.Stringer.
func (k Keys) String() string { return fmt.Sprintf("%d keys", len(k)) }

// GoString implements fmt.GoStringer.
func (k Keys) GoString() string { return "service.Keys(" + k.String() + ")" }

// MarshalText implements encoding.TextMarshaler.
func (k Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue implements slog.LogValuer.
func (k Keys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// parseKeys reads keys in base64, separated by commas or white space. The error shows no part of a
// key.
func parseKeys(text string) (keys Keys, err error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for i, word := range words {
		key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
		if err != nil {
			return nil, fmt.Errorf("key %d is not base64", i+1)
		}
		keys = append(keys, key)
	}
	if keys == nil {
		return nil, errors.New("there is no key")
	}
	return keys, nil
}

// A keyFile is the file of the state keys, which is read again when it changes.
type keyFile struct {
	path           string
	files          *reload.Files[*Keys]
	inUse          *Keys // by the server; only for the goroutine that looks
	stale          bool  // at the last look; only for that goroutine
	loaded, failed atomic.Uint64
}

// openKeys returns the configured keys, and the file that they come from. Each may be nil.
func openKeys(cfg *Config) (Keys, *keyFile, error) {
	switch {
	case cfg.StateKeysFile == "":
		return cfg.StateKeys, nil, nil
	case cfg.StateKeys != nil:
		return nil, nil, errors.New("service: the state keys are given both as keys and as a file")
	}
	f := &keyFile{path: cfg.StateKeysFile}
	files, err := reload.Open(f.parse, f.fail, f.path)
	if unread := (*fs.PathError)(nil); errors.As(err, &unread) { // it names the file
		return nil, nil, fmt.Errorf("service: state keys: %w", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("service: state keys in %s: %w", f.path, err)
	}
	f.files, f.inUse = files, files.Value()
	return *f.inUse, f, nil
}

// parse returns new keys, or what is wrong with them.
func (f *keyFile) parse(texts [][]byte) (*Keys, error) {
	keys, err := parseKeys(string(texts[0]))
	if err == nil {
		err = seal.Check(keys)
	}
	return &keys, err
}

func (f *keyFile) fail(err error) {
	f.failed.Add(1)
	slog.Error("state_keys.reload", "file", f.path, "error", err, "effect", "the keys that were read last stay in use")
}

// watch looks at the file until stop is called. use takes keys that are new.
func (f *keyFile) watch(use func(keys ...[]byte) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(reload.Interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f.look(use)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// look has the keys of the file used if they are new.
func (f *keyFile) look(use func(keys ...[]byte) error) {
	keys := f.files.Value()
	stale := f.files.Stale()
	repaired := f.stale && !stale
	f.stale = stale
	if keys != f.inUse {
		f.inUse = keys
		if err := use(*keys...); err != nil {
			f.fail(err)
			return
		}
		f.loaded.Add(1)
	} else if !repaired {
		return
	}
	slog.Info("state_keys.reload", "file", f.path, "keys", len(*keys))
}

// Snapshot implements [telemetry.Source].
func (f *keyFile) Snapshot() *telemetry.Snapshot {
	s := &telemetry.Snapshot{At: time.Now()}
	s.StateKeys.Stale = f.files.Stale() // it looks at the file, and so may count a failure
	s.StateKeys.Loaded, s.StateKeys.Failed = f.loaded.Load(), f.failed.Load()
	return s
}
