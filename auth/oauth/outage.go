package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errAbandoned matches the error of a token whose caller has hung up. It says nothing about the issuer.
var errAbandoned = errors.New("the caller has hung up")

// abandoned returns the error of a wait for the issuer that ctx, which has ended, has cut short. It matches errAbandoned if the
// caller has hung up, unless the issuer is failing: if all callers are more impatient than this server, nothing else shows an
// issuer that does not answer.
func (i *issuer) abandoned(ctx context.Context) error {
	err := context.Cause(ctx)
	i.mu.Lock()
	failing := i.problem != nil || i.introspections.failed > 0
	i.mu.Unlock()
	if failing || !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", errAbandoned, err)
}

// An outage is a time in which introspections fail. The zero value is none. The issuer's lock guards it.
type outage struct {
	failed int       // introspections
	last   time.Time // when the last of them failed
}

// noteIntrospection logs when introspections begin or end to fail. err is nil for one that has not failed. An outage ends when
// none has failed for Config.MinRefreshInterval, so that an issuer that answers now and then does not fill the log.
func (i *issuer) noteIntrospection(err error) {
	now := i.s.cfg.Now()
	i.mu.Lock()
	o := &i.introspections
	failed := o.failed
	switch {
	case err != nil:
		*o = outage{failed + 1, now}
	case now.Sub(o.last) >= i.s.cfg.MinRefreshInterval:
		*o = outage{}
	default:
		failed = 0 // the outage, if there is one, goes on
	}
	i.mu.Unlock()
	i.logOutage(causeIntrospection, failed, err)
}

// logOutage logs the first failure of an outage, and its end. failed is how many requests have failed before.
func (i *issuer) logOutage(cause string, failed int, err error) {
	switch {
	case i.s.ctx.Err() != nil: // closed
	case err != nil && failed == 0:
		i.s.cfg.Logger.Warn("oauth.issuer_failed", "issuer", i.name, "cause", cause, "error", err, "keys", i.keys.Load().size())
	case err == nil && failed > 0:
		i.s.cfg.Logger.Info("oauth.issuer_recovered", "issuer", i.name, "cause", cause, "failed", failed)
	}
}
