package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// storeCheck bounds the look at the store when the process starts.
const storeCheck = 2 * time.Second

// useStore connects a server with its replicas, if a store is configured. A store that cannot be reached
// is none of the server's faults: calls need none. One that may lose what it has taken is an error. A check of the configuration
// connects the server with no replica: they would tell their clients that the lists have changed.
func (o *options) useStore(ctx context.Context, cfg *Config, srv *server.Server) error {
	text := cfg.Store
	if text == "" {
		return nil
	}
	shared, err := redisstore.Open(string(text))
	if err != nil {
		return fmt.Errorf("service: the store: %w", err)
	}
	check, cancel := context.WithTimeout(ctx, storeCheck)
	defer cancel()
	switch err := shared.Check(check); {
	case errors.Is(err, redisstore.ErrEvicts):
		return errors.Join(fmt.Errorf("service: the store: %w", err), shared.Close())
	case err != nil:
		slog.WarnContext(ctx, "store.unreachable", "store", text, "error", err)
	}
	used := shared.Store()
	if o.checkOnly {
		used = new(store.Memory).Store()
	}
	if err := srv.SetStore(used); err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), shared.Close())
	}
	if cfg.StoreReadiness {
		srv.AddReadiness("store", srv.StoreReady)
	}
	srv.AddHook("store", nil, func(context.Context) error { return shared.Close() })
	return nil
}

// A StoreURL is the URL of a store. Its password is not in what it prints.
type StoreURL string

// String returns the URL without its passwords: one may be in the query.
func (u StoreURL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return "(not a URL)"
	}
	query := parsed.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
		}
	}
	parsed.RawQuery = query.Encode()
	return parsed.Redacted()
}

// GoString implements fmt.GoStringer.
func (u StoreURL) GoString() string { return strconv.Quote(u.String()) }

// MarshalText implements encoding.TextMarshaler.
func (u StoreURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue implements slog.LogValuer.
func (u StoreURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// storeValue is the flag of a store. [useStore] says what is wrong with it, because the errors of flags
// quote their values.
func storeValue(field *StoreURL) flag.Value {
	return &value[StoreURL]{field: field, format: StoreURL.String, parse: func(text string) (StoreURL, error) { return StoreURL(text), nil }}
}
