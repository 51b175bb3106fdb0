package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// DefaultTimeout bounds each dial, read, write, and wait for a free connection. dial_timeout,
	// read_timeout, write_timeout and pool_timeout of the URL change it.
	DefaultTimeout = time.Second
	// DefaultPoolSize is how many commands may be under way at once, each with a connection, for each
	// server. pool_size of the URL changes it. Each Listen has one connection more.
	DefaultPoolSize = 20
	// DefaultRetries is how often a command that only reads is sent again after a failure. max_retries
	// of the URL changes it, and -1 is none. In a cluster max_redirects does.
	DefaultRetries = 1
)

// parse returns the client for a URL, and the prefix.
func parse(text string) (client redis.UniversalClient, prefix string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, "", errors.New("the URL cannot be parsed") // the error quotes it, with the password
	}
	query := u.Query()
	prefix = DefaultPrefix
	if query.Has("prefix") {
		prefix = query.Get("prefix")
		query.Del("prefix")
		u.RawQuery = query.Encode()
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = base
	switch kind {
	case "":
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, "", err
		}
		setDefaults(query, settings{
			&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize, &o.MaxRetries,
			&o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity,
		})
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return redis.NewClient(o), prefix, nil
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, "", err
		}
		setDefaults(query, settings{
			&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize, new(int),
			&o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity,
		})
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return redis.NewClusterClient(o), prefix, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, "", err
		}
		if err := checkSentinel(query, o); err != nil {
			return nil, "", err
		}
		setDefaults(query, settings{
			&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize, &o.MaxRetries,
			&o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity,
		})
		return redis.NewFailoverClient(o), prefix, nil
	}
	return nil, "", fmt.Errorf("the scheme %q is not known: redis, rediss, unix, redis+cluster or redis+sentinel", base+"+"+kind)
}

// nameOf returns what the log calls the server with a URL: without the user, the password, and the query, which may have
// others.
func nameOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// settings are the fields that the three kinds of options have in common.
type settings struct {
	dial, read, write, pool   *time.Duration
	poolSize, retries         *int
	dialTries                 *int
	contextTimeout, anonymous *bool
}

// checkSentinel returns an error if the query of a URL asks for what the store cannot do.
func checkSentinel(query url.Values, o *redis.FailoverOptions) error {
	switch {
	case query.Has("context_timeout_enabled") && !o.ContextTimeoutEnabled:
		return errors.New("context_timeout_enabled must be true: calls would outlive their deadlines")
	case o.RouteByLatency || o.RouteRandomly:
		return errors.New("route_by_latency and route_randomly must be false: all commands go to the server that Sentinel names")
	case o.ReplicaOnly:
		return errors.New("replica_only must not be true: the store writes")
	}
	return nil
}

// setDefaults sets what the query of a URL does not say. A dial is not tried again: the caller decides that.
func setDefaults(query url.Values, s settings) {
	for _, timeout := range []*time.Duration{s.dial, s.read, s.write, s.pool} {
		if *timeout == 0 {
			*timeout = DefaultTimeout
		}
	}
	if *s.poolSize == 0 {
		*s.poolSize = DefaultPoolSize
	}
	if *s.retries == 0 {
		*s.retries = DefaultRetries
	}
	if *s.dialTries == 0 {
		*s.dialTries = 1
	}
	*s.contextTimeout = true
	if !query.Has("disableIdentity") && !query.Has("identitySuffix") {
		*s.anonymous = true // CLIENT SETINFO is one command more for each connection
	}
}

// silence keeps go-redis from writing to stderr. Its logger is one of the process.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

// Printf drops what go-redis logs. The errors of the store say the same.
func (silent) Printf(context.Context, string, ...any) {}
