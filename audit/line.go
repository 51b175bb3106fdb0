package audit

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// Bounds in bytes on the texts of a record, and on the number of actors.
const (
	maxShort  = 64
	maxText   = 256
	maxTarget = 512
	maxActors = 8
)

// maxLineBytes bounds a line without its arguments: control characters take up to six bytes for each.
const maxLineBytes = 32 << 10

// A line is the JSON of a record while it is written.
type line []byte

// key appends the name of a member.
func (l *line) key(name string) {
	if (*l)[len(*l)-1] != '{' {
		*l = append(*l, ',')
	}
	*l = append(append(append(*l, '"'), name...), '"', ':')
}

// text appends a member with a text, unless that is empty.
func (l *line) text(name, value string, most int) {
	if value == "" {
		return
	}
	l.key(name)
	*l = appendText(*l, value, most)
}

// appendText appends a text as JSON. Most texts need no change, and conditions of rules no more than
// escapes.
func appendText(dst []byte, value string, most int) []byte {
	printable, plain := len(value) <= most, true
	for i := 0; i < len(value) && printable; i++ {
		c := value[i]
		printable = c >= ' ' && c <= '~'
		plain = plain && c != '"' && c != '\\'
	}
	switch {
	case !printable:
		value = logline.Printable(value, most)
	case plain:
		return append(append(append(dst, '"'), value...), '"')
	}
	dst, _ = jsontext.AppendQuote(dst, value) // which is UTF-8, so that it cannot fail
	return dst
}

// number appends a member with a number, unless that is 0.
func (l *line) number(name string, value int64) {
	if value != 0 {
		l.key(name)
		*l = strconv.AppendInt(*l, value, 10)
	}
}

// lineStart is how each line begins.
const lineStart = `{"time":"`

// append appends the JSON of a record without its last brace, to which the chain adds.
func (r *Record) append(dst []byte) []byte {
	l := line(append(dst, lineStart...))
	l = append(r.Time.UTC().AppendFormat(l, "2006-01-02T15:04:05.000000Z07:00"), '"')
	l.principal(r.Principal)
	l.text("client_name", r.ClientName, maxShort)
	l.text("client_version", r.ClientVersion, maxShort)
	l.text("address", r.Address, 2*maxShort)
	l.text("transport", r.Transport, maxShort)
	l.text("session", r.Session, maxShort)
	l.text("request_id", r.RequestID, maxText)
	l.text("operation", r.Operation, maxText)
	l.text("target", r.Target, maxTarget)
	l.text("task", r.Task, maxShort)
	l.arguments(r)
	l.text("decision", string(r.Decision), maxShort)
	l.text("rule", r.Rule, maxText)
	l.text("reason", r.Reason, maxText)
	if r.DryRun {
		l.key("dry_run")
		l = append(l, "true"...)
	}
	l.text("stage", string(r.Stage), maxShort)
	l.text("outcome", string(r.Outcome), maxShort)
	l.number("error_code", int64(r.ErrorCode))
	l.text("cause", string(r.Cause), maxShort)
	l.text("drop_reason", string(r.Dropped), maxShort)
	if r.Duration > 0 {
		l.key("duration_ms")
		l = strconv.AppendFloat(l, float64(r.Duration)/float64(time.Millisecond), 'f', 3, 64)
	}
	l.text("trace_id", r.TraceID, maxShort)
	l.number("count", int64(r.Count))
	return l
}

// principal appends who calls.
func (l *line) principal(p *auth.Principal) {
	if p == nil {
		return
	}
	l.text("issuer", p.Issuer, maxText)
	l.text("subject", p.Subject, maxText)
	l.text("tenant", p.Tenant, maxText)
	l.text("client_id", p.Client, maxText)
	if len(p.Actors) == 0 {
		return
	}
	l.key("actors")
	for i, actor := range p.Actors[:min(len(p.Actors), maxActors)] {
		*l = appendText(append(*l, "[,"[min(i, 1)]), actor, maxText)
	}
	*l = append(*l, ']')
}

// arguments appends what is kept of the arguments.
func (l *line) arguments(r *Record) {
	if r.digested {
		l.key("arguments_digest")
		*l = append(hex.AppendEncode(append(*l, '"'), r.digest[:]), '"')
	}
	if r.redacted != nil {
		l.key("arguments")
		*l = append(*l, r.redacted...)
	}
	l.text("arguments_withheld", r.withheld, maxShort)
}

// recordBytes is what a record takes in a queue, without its texts.
const recordBytes = 640

// size returns about how many bytes a record takes in a queue. Texts that it shares with others, such as those of its
// connection, are not counted. Those of its principal are: each request may have found a principal of its own.
func (r *Record) size() int {
	return recordBytes + len(r.ClientName) + len(r.ClientVersion) + len(r.Operation) + len(r.RequestID) + len(r.Target) +
		len(r.redacted) + len(r.Rule) + len(r.Reason) + r.caller.size()
}

// cut shortens the texts that callers choose to what a line has of them.
func (r *Record) cut() {
	for _, t := range [...]struct {
		text *string
		most int
	}{
		{&r.ClientName, maxShort}, {&r.ClientVersion, maxShort}, {&r.RequestID, maxText}, {&r.Operation, maxText},
		{&r.Target, maxTarget}, {&r.Rule, maxText}, {&r.Reason, maxText},
	} {
		*t.text = cutText(*t.text, t.most)
	}
}

// cutText shortens a text. A record may wait for long, and a text that is cut does not keep the rest alive.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:most], ""))
}
