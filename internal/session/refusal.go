package session

import (
	"log/slog"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/mcp"
)

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

// refusedCounts counts refusals by reason and refuser. Their number is bounded,
// because the program may make up a reason for each request.
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

// logRejected writes the log line of a rejected request. What a rate limit refuses may come often:
// there is one line at info level for each second and limit, with the address of the caller.
func (c *Core) logRejected(r *Request, reason mcp.RejectReason, err *mcp.Error) {
	level, attrs := slog.LevelInfo, append(r.LogAttrs(), "reason", reason)
	if refusal, ok := mcp.AsRefusal(err); ok {
		attrs = append(attrs, refusalAttrs(refusal)...)
		if refusal.Reason == rates.Reason && c.rates.Has(refusal.By) {
			var silenced slog.Attr
			level, silenced = c.senderLevel("request.rejected", refusal.By)
			attrs = append(attrs, silenced)
			if r.Conn != nil {
				attrs = appendText(attrs, "remote", r.Conn.RemoteAddr)
			}
		}
	}
	c.logger.Log(r.ctx, level, "request.rejected", attrs...)
}

// refusalAttrs returns what the log says of a refusal: all of it, because only operators read
// the log.
func refusalAttrs(r *mcp.Refusal) (attrs []any) {
	attrs = []any{"refusal", logline.Printable(r.Reason, maxRefusedText), "by", logline.Printable(r.By, maxRefusedText)}
	if r.Err != nil {
		attrs = append(attrs, "error", r.Err)
	}
	return attrs
}
