package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A field is a member that the envelope needs, or the message itself.
type field uint8

const (
	noField field = iota // all others
	wholeMessage

	fieldJSONRPC
	fieldID
	fieldMethod
	fieldParams
	fieldResult
	fieldError

	// of params
	fieldName
	fieldURI
	fieldTaskID
	fieldRequestID
	fieldReason
	fieldArguments
	fieldMeta

	// of params._meta
	fieldVersion
	fieldClientInfo
	fieldCapabilities
	fieldLogLevel
	fieldProgressToken
	fieldTraceParent
	fieldTraceState
	fieldBaggage

	fieldCount
)

// member returns which field the member with that name is, if f is an object.
func (f field) member(name []byte) field {
	first, last := noField, noField
	switch f {
	case wholeMessage:
		first, last = fieldJSONRPC, fieldError
	case fieldParams:
		first, last = fieldName, fieldMeta
	case fieldMeta:
		first, last = fieldVersion, fieldBaggage
	default:
		return noField
	}
	if m := fieldNamed(name); first <= m && m <= last {
		return m
	}
	return noField
}

// fieldNamed returns the field with a name. Fields of different objects have different names.
func fieldNamed(name []byte) field {
	switch string(name) {
	case "jsonrpc":
		return fieldJSONRPC
	case "id":
		return fieldID
	case "method":
		return fieldMethod
	case "params":
		return fieldParams
	case "result":
		return fieldResult
	case "error":
		return fieldError
	case "name":
		return fieldName
	case "uri":
		return fieldURI
	case "taskId":
		return fieldTaskID
	case "requestId":
		return fieldRequestID
	case "reason":
		return fieldReason
	case "arguments":
		return fieldArguments
	case "_meta":
		return fieldMeta
	case mcp.MetaProtocolVersion:
		return fieldVersion
	case mcp.MetaClientInfo:
		return fieldClientInfo
	case mcp.MetaClientCapabilities:
		return fieldCapabilities
	case mcp.MetaLogLevel:
		return fieldLogLevel
	case mcp.MetaProgressToken:
		return fieldProgressToken
	case mcp.MetaTraceParent:
		return fieldTraceParent
	case mcp.MetaTraceState:
		return fieldTraceState
	case mcp.MetaBaggage:
		return fieldBaggage
	}
	return noField
}

// A span is a part of a frame: from start, to before end. The zero span is none.
type span struct{ start, end int }

// fields are the parts of a message that a scanner found. The scanner checks nothing but
// syntax, because members come in any order: method may follow params.
type fields struct {
	frame []byte
	top   jsontext.Kind // what the frame begins with
	depth int           // of the deepest object or array; the message is 1
	found [fieldCount]span
}

func (m *fields) has(f field) bool { return m.found[f] != span{} }

// raw returns the value of a field, nil if it is absent. It has no spare capacity, so
// that an append to it cannot write into the frame.
func (m *fields) raw(f field) jsontext.Value {
	at := m.found[f]
	if at == (span{}) {
		return nil
	}
	return m.frame[at.start:at.end:at.end]
}

// first returns the byte that the value of a field begins with, 0 if it is absent.
func (m *fields) first(f field) byte {
	if at := m.found[f]; at != (span{}) {
		return m.frame[at.start]
	}
	return 0
}
