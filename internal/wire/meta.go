package wire

import (
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// fillMeta decodes the fields of params._meta.
func (m *fields) fillMeta(meta *Meta) {
	if !m.has(fieldMeta) {
		return
	}
	version := m.raw(fieldVersion)
	meta.Present, meta.Raw = true, m.raw(fieldMeta)
	meta.IsObject = meta.Raw.Kind() == '{'
	meta.HasProtocolVersion = version != nil
	meta.ClientInfo = m.raw(fieldClientInfo)
	meta.ClientCapabilities = m.raw(fieldCapabilities)
	meta.LogLevel = m.raw(fieldLogLevel)
	meta.ProgressToken = m.raw(fieldProgressToken)
	meta.ProgressTokenOK = isToken(meta.ProgressToken)
	if isString(version) {
		meta.ProtocolVersion, meta.ProtocolVersionOK = internVersion(jsonvalue.Unquote(version)), true
	}
	meta.TraceParent = stringOf(m.raw(fieldTraceParent))
	meta.TraceState = stringOf(m.raw(fieldTraceState))
	meta.Baggage = stringOf(m.raw(fieldBaggage))
}

// modernMeta is what params._meta of a modern request must have.
const modernMeta = mcp.MetaProtocolVersion + " and " + mcp.MetaClientCapabilities

// LegacyWayIn and ModernWayIn tell a client how to begin in each era. Over HTTP a modern client
// also sends headers.
const (
	LegacyWayIn = "begin with initialize"
	ModernWayIn = "send each request as revision " + string(mcp.LatestVersion) + " has it, with " + modernMeta + " in params._meta"
)

// CheckModernMeta checks the metadata that every modern request carries
// (specification: Base Protocol, General fields, _meta). It returns nil, or a
// [mcp.CodeInvalidParams] error that names every key that is missing or ill-typed.
func (e *Envelope) CheckModernMeta() *mcp.Error {
	m := &e.Meta
	switch {
	case e.Params.Kind() != '{':
		return mcp.NewError(mcp.CodeInvalidParams, "params must be an object with _meta, which has "+modernMeta)
	case !m.Present:
		return mcp.NewError(mcp.CodeInvalidParams, "params._meta is missing: it has "+modernMeta+"; clients of older revisions begin with initialize")
	case !m.IsObject:
		return mcp.NewError(mcp.CodeInvalidParams, "params._meta must be an object")
	}
	var faults []string
	fault := func(bad bool, text string) {
		if bad {
			faults = append(faults, text)
		}
	}
	fault(!m.HasProtocolVersion, mcp.MetaProtocolVersion+" is missing")
	fault(m.HasProtocolVersion && !m.ProtocolVersionOK, mcp.MetaProtocolVersion+" must be a string")
	fault(m.ClientCapabilities == nil, mcp.MetaClientCapabilities+" is missing")
	fault(m.ClientCapabilities != nil && m.ClientCapabilities.Kind() != '{', mcp.MetaClientCapabilities+" must be an object")
	fault(m.ClientInfo != nil && m.ClientInfo.Kind() != '{', mcp.MetaClientInfo+" must be an object")
	fault(m.ProgressToken != nil && !m.ProgressTokenOK, mcp.MetaProgressToken+" must be a string or an integer")
	if faults == nil {
		return nil
	}
	return mcp.NewError(mcp.CodeInvalidParams, "params._meta: %s", strings.Join(faults, "; "))
}
