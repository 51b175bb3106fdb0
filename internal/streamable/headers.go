package streamable

import (
	"cmp"
	"encoding/base64"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// checkModern holds the headers of a modern request against its body. The order
// of the checks is the specification's: metadata before headers, headers before
// anything that the server itself decides.
func checkModern(in *session.Inbound) *mcp.Error {
	for _, name := range []string{headerVersion, headerMethod, headerName} {
		if len(in.Header[name]) > 1 {
			return mismatch("%s is given more than once", name)
		}
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
	raw := in.Header[headerName]
	if len(raw) == 0 {
		return mismatch("%s is missing", headerName)
	}
	value, ok := DecodeHeaderValue(raw[0])
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

// wantsNullID reports whether an error that belongs to no request has an id of null: for
// clients of the revisions up to 2025-06-18, as JSON-RPC has it. Later ones have no id
// there, and the schema of the modern era forbids the null. Which revision it is, the
// session knows. Without one the version header tells; who sends none is no modern
// client, and one that has not begun a session yet, or knows no such header.
func (x *exchange) wantsNullID() bool {
	version := mcp.Version(x.r.Header.Get(headerVersion))
	if era, known := version.Era(); version != "" && (!known || era == mcp.Modern) {
		return false
	}
	if s := x.session(x.r.Header.Get(headerSessionID)); s != nil {
		if p := s.Peer(); p != nil {
			version = p.Version
		}
	}
	return !version.AtLeast(mcp.Version20251125)
}
