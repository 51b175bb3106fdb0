package wire

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

var errTrailing = errors.New("unexpected data after the message")

// envelope judges what the pass found and fills env. The result is an error
// value and not an *Error, so that a nil one is nil to the caller.
func (p *pass) envelope(env *Envelope, lim Limits) error {
	switch p.top {
	case '{':
	case '[':
		return &Error{
			Code: mcp.CodeInvalidRequest, Reason: ReasonBatch,
			Message: "a message must be a single object, not an array",
		}
	default:
		return &Error{
			Code: mcp.CodeInvalidRequest, Reason: ReasonNotJSONRPC,
			Message: "a message must be an object",
		}
	}
	env.Kind = p.kind()
	idOK := p.readID(env)
	if depthExceeds(p.frame, lim.MaxDepth) {
		return &Error{
			Code: mcp.CodeParseError, Reason: ReasonTooDeep, Message: tooDeepMessage(lim),
			ID: env.ID, Kind: env.Kind,
		}
	}
	if what := p.fault(env.Kind, idOK, env.ID); what != "" {
		e := &Error{
			Code: mcp.CodeInvalidRequest, Reason: ReasonNotJSONRPC,
			Message: what, ID: env.ID, Kind: env.Kind,
		}
		if !env.ID.IsZero() {
			e.Reason = ReasonInvalidRequest
		}
		return e
	}
	if env.Kind == Response {
		env.Result, env.Error = p.result, p.errObj
		return nil
	}
	env.Method, env.Params = internMethod(unquote(p.method)), p.params
	env.Arguments = p.args
	p.fillName(env)
	p.fillMeta(&env.Meta)
	if env.Method == mcp.NotificationCancelled {
		env.Cancel = p.cancel()
	}
	return nil
}

// readID sets the id of env and reports whether it is one that the message may have.
func (p *pass) readID(env *Envelope) bool {
	if p.id == nil {
		return true // fault knows who must have one
	}
	var err error
	if env.ID, err = parseID(p.id); err == nil {
		return true
	}
	// JSON-RPC has id null in the error response to a request that nobody could read.
	return env.Kind == Response && p.result == nil && p.id.Kind() == 'n'
}

// kind tells what the message was meant to be.
func (p *pass) kind() Kind {
	switch {
	case p.method != nil && p.id != nil:
		return Request
	case p.method != nil:
		return Notification
	case p.result != nil || p.errObj != nil:
		return Response
	}
	return Invalid
}

// fault returns the first rule of messages that is broken, or "".
func (p *pass) fault(kind Kind, idOK bool, id mcp.ID) string {
	switch {
	case p.jsonrpc == nil:
		return `member "jsonrpc" is missing`
	case !isString(p.jsonrpc) || string(unquote(p.jsonrpc)) != "2.0":
		return `member "jsonrpc" must be "2.0"`
	case !idOK:
		return `member "id" must be a string or an integer`
	case p.method != nil && !isString(p.method):
		return `member "method" must be a string`
	case p.method != nil && (p.result != nil || p.errObj != nil):
		return `a message with "method" must not have "result" or "error"`
	case p.result != nil && p.errObj != nil:
		return `a response must not have both "result" and "error"`
	case kind == Invalid:
		return `a message must have "method", "result" or "error"`
	case kind == Response && p.result != nil && id.IsZero():
		return `member "id" is missing`
	case p.errObj != nil && p.errObj.Kind() != '{':
		return `member "error" must be an object`
	case p.params != nil && p.params.Kind() != '{' && p.params.Kind() != '[':
		return `member "params" must be an object or an array`
	}
	return ""
}

func (p *pass) fillName(env *Envelope) {
	var v jsontext.Value
	switch mcp.NameMember(env.Method) {
	case "name":
		v = p.name
	case "uri":
		v = p.uri
	case "taskId":
		v = p.taskID
	}
	if isString(v) {
		env.Name, env.HasName = stringOf(v), true
	}
}

func (p *pass) cancel() *Cancel {
	c := &Cancel{Reason: stringOf(p.reason)}
	if p.requestID != nil {
		c.HasRequestID = true
		id, err := parseID(p.requestID)
		c.RequestID, c.RequestIDOK = id, err == nil
	}
	return c
}

// parseID reads an id from a valid JSON value.
func parseID(v jsontext.Value) (mcp.ID, error) {
	raw := string(v)
	if !isString(v) {
		return mcp.ParseID(raw, "")
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return mcp.ParseID(raw, raw[1:len(raw)-1])
	}
	return mcp.ParseID(raw, string(unquote(v)))
}

func isString(v jsontext.Value) bool { return len(v) > 0 && v[0] == '"' }

// stringOf returns the text of a valid JSON string, and "" for anything else.
func stringOf(v jsontext.Value) string {
	if !isString(v) {
		return ""
	}
	return string(unquote(v))
}

// unquote returns the text of a valid JSON string. It aliases v unless v has escapes.
func unquote(v jsontext.Value) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, v) // the decoder has validated it
	return b
}
