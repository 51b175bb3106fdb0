package session

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// byAdmission says who refuses a request if the rule itself does not say so.
const byAdmission = "admission"

// askAdmission asks the server's rules whether a request may be admitted; nil is yes. A
// rule that panics lets nothing in.
func (c *Core) askAdmission(r *Request) (refused *mcp.Error) {
	if c.admission == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			c.logger.ErrorContext(r.ctx, "admission.panic", append(r.LogAttrs(), "panic", v, "stack", string(debug.Stack()))...)
			refused = (&mcp.Refusal{Status: 503, Reason: "panic", By: byAdmission}).RPC()
		}
	}()
	// The alarm of the request is set when it is admitted.
	ctx, cancel := context.WithDeadlineCause(r.ctx, r.Deadline(), mcp.ErrDeadline)
	defer cancel()
	if err := c.admission(ctx, r); err != nil {
		return asRefusal(err, mcp.Refusal{Status: 403, Reason: "forbidden", By: byAdmission}).RPC()
	}
	return nil
}

// asRefusal finds the refusal in an error, or makes it the reason behind another one.
func asRefusal(err error, otherwise mcp.Refusal) *mcp.Refusal {
	if r, ok := mcp.AsRefusal(err); ok {
		if r.By != "" && r.Reason != "" {
			return r
		}
		named := *r
		if named.By == "" {
			named.By = otherwise.By
		}
		if named.Reason == "" {
			named.Reason = otherwise.Reason
		}
		return &named
	}
	otherwise.Err = err
	return &otherwise
}

// A RefusedCounter counts refusals: why, and by whom.
type RefusedCounter struct {
	Reason, By string
	Count      uint64
}

// maxRefusedKinds bounds how many pairs of reason and refuser are told apart, and
// maxRefusedText the bytes of each text; what is more counts as otherRefusal.
const (
	maxRefusedKinds = 64
	maxRefusedText  = 64
	otherRefusal    = "_OTHER"
)

// refusedCounts counts refusals by reason and refuser. They come from the program, and
// may be made up for each request all the same, so their number is bounded.
type refusedCounts struct {
	mu     sync.Mutex
	counts map[refusedKey]uint64
}

type refusedKey struct{ reason, by string }

func (t *refusedCounts) add(r *mcp.Refusal) {
	key := refusedKey{logline.Printable(r.Reason, maxRefusedText), logline.Printable(r.By, maxRefusedText)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[refusedKey]uint64{}
	}
	if _, known := t.counts[key]; !known && len(t.counts) >= maxRefusedKinds {
		key = refusedKey{otherRefusal, otherRefusal}
	}
	t.counts[key]++
}

func (t *refusedCounts) list() (all []RefusedCounter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, n := range t.counts {
		all = append(all, RefusedCounter{key.reason, key.by, n})
	}
	return all
}

// refusalAttrs are what the log says of a refusal: all of it, as the log is the operator's.
func refusalAttrs(r *mcp.Refusal) (attrs []any) {
	attrs = []any{"refusal", logline.Printable(r.Reason, maxRefusedText), "by", logline.Printable(r.By, maxRefusedText)}
	if r.Err != nil {
		attrs = append(attrs, "error", r.Err)
	}
	return attrs
}

// CountRefusal counts the refusal of what gets no answer, if an error is one.
func (c *Core) CountRefusal(err error) {
	if r, _ := mcp.AsRefusal(err); r != nil {
		c.refused.add(r)
	}
}

// countRefusal counts the refusal that an error stands for, if it does.
func (c *Core) countRefusal(err *mcp.Error) {
	if r, ok := mcp.AsRefusal(err); ok {
		c.refused.add(r)
	}
}
