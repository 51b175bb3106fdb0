package auditing

import (
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// describe returns what a record has of a request, whatever comes of it.
func (o *Observer) describe(r *session.Request) audit.Record {
	rec := o.describeMessage(r.Inbound, r.Session())
	rec.Time, rec.TraceID, rec.Arguments = r.ArrivedAt(), observe.TraceID(r), r.Arguments
	return rec
}

// describeMessage returns what a record has of a message. s may be nil.
func (o *Observer) describeMessage(in *session.Inbound, s *session.Session) audit.Record {
	rec := audit.Record{Operation: in.Method, RequestID: in.ID.String(), Target: targetOf(in)}
	addConn(in.Conn, &rec)
	if s != nil {
		rec.Session = s.LogID()
	}
	rec.ClientName, rec.ClientVersion = o.core.ClientOf(in, s)
	return rec
}

// addConn adds what is known of the caller. c may be nil.
func addConn(c *session.Conn, rec *audit.Record) {
	if c != nil {
		rec.Principal, rec.Address, rec.Transport = c.Principal, c.RemoteAddr, c.Transport
	}
}

// maxTaskName bounds what is shown of the id of a task, which lets its caller read the task.
const maxTaskName = 8

// targetOf returns what a message is about.
func targetOf(in *session.Inbound) string {
	switch {
	case in.Method == mcp.NotificationCancelled && in.Cancel != nil:
		return in.Cancel.RequestID.String()
	case in.Method == mcp.MethodCompletionComplete:
		var params struct {
			Ref mcp.CompletionReference `json:"ref"`
		}
		_ = wire.Unmarshal(in.Params, &params) // what cannot be read is empty
		return params.Ref.Name + params.Ref.URI
	case strings.HasPrefix(in.Method, "tasks/") && len(in.Name) > maxTaskName:
		return strings.Clone(in.Name[:maxTaskName]) // the record does not keep the rest
	}
	return in.Name
}

// reasonOf returns a label that a program has made up, fit to be a key.
func reasonOf(label string) string { return logline.Printable(label, maxReason) }

const maxReason = 64
