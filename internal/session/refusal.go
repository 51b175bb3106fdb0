package session

import (
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A RefusedCounter counts refusals: why, and by whom.
type RefusedCounter struct {
	Reason, By string
	Count      uint64
}

// refusedCounts counts refusals by reason and refuser.
type refusedCounts struct{ pairs pairCounts }

func (t *refusedCounts) add(r *mcp.Refusal) {
	t.pairs.add(logline.Printable(r.Reason, maxLabelText), logline.Printable(r.By, maxLabelText), otherLabel)
}

func (t *refusedCounts) list() (all []RefusedCounter) {
	t.pairs.each(func(reason, by string, n uint64) { all = append(all, RefusedCounter{reason, by, n}) })
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
	if data, ok := err.Data.(mcp.ErrorData); ok {
		attrs = append(appendText(attrs, "limit", data.Limit), logClass(data.Class)...)
	}
	c.logger.Log(r.ctx, level, "request.rejected", attrs...)
}

// refusalAttrs returns what the log says of a refusal: all of it, because only operators read
// the log.
func refusalAttrs(r *mcp.Refusal) (attrs []any) {
	attrs = []any{"refusal", logline.Printable(r.Reason, maxLabelText), "by", logline.Printable(r.By, maxLabelText)}
	if r.Err != nil {
		attrs = append(attrs, "error", r.Err)
	}
	return attrs
}
