package task

import (
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// Options describe a task, see server.TaskOptions.
type Options struct {
	TTL          time.Duration
	PollInterval time.Duration
	Message      string
}

// life returns how long a task lives, and the limit that says so; "" if it is the
// handler's own wish.
func (o Options) life(l limits.Limits) (ttl time.Duration, limit string) {
	ttl = o.TTL
	if ttl == 0 {
		ttl, limit = l.TaskTTL, limits.NameTaskTTL
	}
	if ttl > l.MaxTaskTTL {
		ttl, limit = l.MaxTaskTTL, limits.NameMaxTaskTTL
	}
	return max(ttl.Truncate(time.Millisecond), time.Millisecond), limit
}

func (o Options) check() error {
	if o.TTL < 0 || o.PollInterval < 0 {
		return fmt.Errorf("server: neither the TTL (%v) nor the poll interval (%v) of a task may be negative", o.TTL, o.PollInterval)
	}
	return nil
}
