package streamable

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Header names of the protocol.
const (
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerSessionID = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// checkModern compares the headers of a modern request with its body. The order of the checks
// is that of the specification: metadata before headers, headers before all decisions of the
// server.
func checkModern(in *session.Inbound) *mcp.Error {
	if err := checkRepeated(in.Header, headerVersion, headerMethod, headerName); err != nil {
		return err
	}
	if err := in.CheckModernMeta(); err != nil {
		return err
	}
	if err := cmp.Or(sameHeader(in, headerVersion, in.Meta.ProtocolVersion), sameHeader(in, headerMethod, in.Method)); err != nil {
		return err
	}
	if mcp.NameMember(in.Method) == "" || !in.HasName {
		return nil
	}
	if len(in.Header[headerName]) == 0 {
		return mismatch("%s is missing", headerName)
	}
	return checkName(in)
}

// checkLegacy compares the headers of a legacy message with its body. Legacy clients need not send
// headers of the modern era. But a proxy may decide by them, so they must not say anything else
// than the body.
func checkLegacy(in *session.Inbound) *mcp.Error {
	if err := checkRepeated(in.Header, headerVersion, headerSessionID, headerMethod, headerName); err != nil {
		return err
	}
	if len(in.Header[headerMethod]) > 0 {
		if err := sameHeader(in, headerMethod, in.Method); err != nil {
			return err
		}
	}
	if len(in.Header[headerName]) == 0 || mcp.NameMember(in.Method) == "" || !in.HasName {
		return nil
	}
	return checkName(in)
}

// checkRepeated returns an error if a header with one value has several: a proxy may have looked
// at another one than the server does.
func checkRepeated(h http.Header, names ...string) *mcp.Error {
	for _, name := range names {
		if len(h[name]) > 1 {
			return mismatch("%s is given more than once", name)
		}
	}
	return nil
}

// checkName compares the Mcp-Name header with the name in the body. Both are there.
func checkName(in *session.Inbound) *mcp.Error {
	value, ok := DecodeHeaderValue(in.Header[headerName][0])
	if !ok {
		return mismatch("%s is not valid base64", headerName)
	}
	if value != in.Name {
		return mismatch("%s differs from params.%s", headerName, mcp.NameMember(in.Method))
	}
	return nil
}

func sameHeader(in *session.Inbound, name, want string) *mcp.Error {
	switch values := in.Header[name]; {
	case len(values) == 0:
		return mismatch("%s is missing", name)
	case values[0] != want:
		return mismatch("%s differs from the body", name)
	}
	return nil
}

func mismatch(format string, name ...any) *mcp.Error {
	return mcp.NewError(mcp.CodeHeaderMismatch, format, name...)
}

// DecodeHeaderValue decodes the value of Mcp-Name and Mcp-Param-*: literal, or
// =?base64?...?= around the base64 of UTF-8 text (specification: "Value encoding").
func DecodeHeaderValue(v string) (string, bool) {
	body, found := strings.CutPrefix(v, "=?base64?")
	if !found {
		return v, true
	}
	if body, found = strings.CutSuffix(body, "?="); !found {
		return v, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(body)
	return string(text), err == nil
}

// HeaderLines returns the number of lines of a header. [http.Request] has taken some out, such as
// Host.
func HeaderLines(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// lineOverhead is about what a header line takes beside its text, in bytes.
const lineOverhead = 128

// holdHeader charges a large header, which the exchange keeps as long as it lives, and reports whether
// there was room.
func (x *exchange) holdHeader() bool {
	size := 0
	for name, values := range x.r.Header {
		for _, value := range values {
			size += lineOverhead + len(name) + len(value)
		}
	}
	if size <= session.FreeBody {
		return true
	}
	x.header, x.held = size, x.core.NewBody(x.conn)
	return x.held.Grow(size)
}

// refuseHeaders refuses a request with too many headers; what has them. It lets go of them first, because the
// request lives until its answer is sent and the rest of its body has arrived.
func (x *exchange) refuseHeaders(what string) {
	x.dropHeader()
	x.refuse(http.StatusRequestHeaderFieldsTooLarge, mcp.RefuseTooManyHeaders, invalid("%s more than %d lines: %s is reached",
		what, x.core.Limits().MaxHeaders, limits.NameHeaders).WithData(mcp.ErrorData{Limit: limits.NameHeaders}))
}

// dropHeader lets go of the header, but for what logs have of it.
func (x *exchange) dropHeader() { x.r.Header = http.Header{"User-Agent": {x.r.UserAgent()}} }
