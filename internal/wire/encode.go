package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// AppendError appends the error response to the request id. With the zero ID the response
// has no id member: revisions from 2025-11-25 on want that for a request whose id could
// not be read. For older revisions see [AppendErrorNullID]. Data that cannot be encoded is
// left out.
func AppendError(dst []byte, id mcp.ID, e *mcp.Error) []byte {
	return appendError(appendID(append(dst, `{"jsonrpc":"2.0"`...), id), e)
}

// AppendErrorNullID appends an error response with the id null, for clients of revision
// 2025-06-18 and earlier that sent a request whose id could not be read.
func AppendErrorNullID(dst []byte, e *mcp.Error) []byte {
	return appendError(append(dst, `{"jsonrpc":"2.0","id":null`...), e)
}

func appendError(dst []byte, e *mcp.Error) []byte {
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if e.Data != nil {
		if withData, err := Marshal(append(dst, `,"data":`...), e.Data); err == nil {
			dst = withData
		}
	}
	return append(dst, `}}`...)
}

// AppendResponseHead appends a response up to its result, so that the result can
// be encoded in place. The caller appends the result, as JSON on one line, and
// a closing brace.
func AppendResponseHead(dst []byte, id mcp.ID) []byte {
	return append(appendID(append(dst, `{"jsonrpc":"2.0"`...), id), `,"result":`...)
}

// AppendNotification appends a notification. Params must be a valid JSON object
// or array; empty params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0"`...), method, params)
}

// SetMeta returns params, which are a JSON object or empty, with members of _meta set to
// strings. All other members stay as they were. If params or their _meta are of another
// type, SetMeta returns params as they are.
func SetMeta(params []byte, members map[string]string) []byte {
	if len(members) == 0 {
		return params
	}
	if len(params) == 0 {
		params = []byte("{}")
	}
	var object struct {
		Meta map[string]jsontext.Value `json:"_meta"`
		Rest jsontext.Value            `json:",embed"`
	}
	if json.Unmarshal(params, &object) != nil {
		return params
	}
	if object.Meta == nil {
		object.Meta = make(map[string]jsontext.Value, len(members))
	}
	for name, text := range members {
		object.Meta[name] = AppendString(nil, text)
	}
	set, err := json.Marshal(&object, json.Deterministic(true))
	if err != nil {
		return params
	}
	return set
}

// AppendRequest appends a request. Params must be a valid JSON object or array;
// empty params are left out. The id must not be the zero ID.
func AppendRequest(dst []byte, id mcp.ID, method string, params []byte) []byte {
	return appendCall(appendID(append(dst, `{"jsonrpc":"2.0"`...), id), method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = AppendString(append(dst, `,"method":`...), method)
	if len(params) > 0 {
		dst = appendRaw(append(dst, `,"params":`...), params)
	}
	return append(dst, '}')
}

func appendID(dst []byte, id mcp.ID) []byte {
	if id.IsZero() {
		return dst
	}
	return append(append(dst, `,"id":`...), id.Raw()...)
}

// appendRaw appends JSON on one line. A line break in valid JSON can only stand between
// tokens, where a space means the same, so that replacing it needs no parsing.
func appendRaw(dst, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, raw...)
	for _, c := range []byte{'\n', '\r'} {
		rest := dst[start:]
		for {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return dst
}

// marshalOptions replaces invalid UTF-8 and orders map keys.
var marshalOptions = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.Deterministic(true))

// AppendValue appends raw as [Marshal] does.
func AppendValue(dst []byte, raw jsontext.Value) ([]byte, error) {
	return jsontext.AppendFormat(dst, raw, marshalOptions)
}

// Marshal appends v as compact JSON on one line, raw members included, with
// U+FFFD for bytes that are not UTF-8 and map keys in order. It returns dst
// as it was if v cannot be encoded.
func Marshal(dst []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v, marshalOptions)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

// ResultType returns the resultType of a modern result.
func ResultType(result mcp.Result) string {
	if typed, ok := result.(interface{ ResultType() string }); ok {
		return typed.ResultType()
	}
	return "complete"
}
