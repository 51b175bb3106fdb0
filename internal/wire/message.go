package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// envelope checks what the scanner found and fills env. The result has the type error and
// not *Error, so that the caller can compare it with nil.
func (m *fields) envelope(env *Envelope, lim Limits) error {
	switch m.top {
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
	env.Kind = m.kind()
	idOK := m.readID(env)
	if m.depth > lim.MaxDepth {
		return &Error{
			Code: mcp.CodeParseError, Reason: ReasonTooDeep, Message: tooDeepMessage(lim),
			ID: env.ID, Kind: env.Kind,
		}
	}
	if what := m.fault(env.Kind, idOK, env.ID); what != "" {
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
		env.Result, env.Error = m.raw(fieldResult), m.raw(fieldError)
		return nil
	}
	method := internMethod(jsonvalue.Unquote(m.raw(fieldMethod)))
	env.Method, env.Params, env.Arguments = method.name, m.raw(fieldParams), m.raw(fieldArguments)
	m.fillName(env, method.target)
	m.fillMeta(&env.Meta)
	if env.Method == mcp.NotificationCancelled {
		env.Cancel = m.cancel()
	}
	return nil
}

// readID sets the id of env and reports whether the message may have it.
func (m *fields) readID(env *Envelope) bool {
	if !m.has(fieldID) {
		return true // fault checks whether the message needs one
	}
	var err error
	if env.ID, err = parseID(m.raw(fieldID)); err == nil {
		return true
	}
	// In JSON-RPC the error response to a request whose id could not be read has the id null.
	return env.Kind == Response && !m.has(fieldResult) && m.first(fieldID) == 'n'
}

// kind returns the kind of message that the members indicate.
func (m *fields) kind() Kind {
	switch {
	case m.has(fieldMethod) && m.has(fieldID):
		return Request
	case m.has(fieldMethod):
		return Notification
	case m.has(fieldResult) || m.has(fieldError):
		return Response
	}
	return Invalid
}

// fault returns the first rule that the message breaks, or "".
func (m *fields) fault(kind Kind, idOK bool, id mcp.ID) string {
	switch {
	case !m.has(fieldJSONRPC):
		return `member "jsonrpc" is missing`
	case !isTwo(m.raw(fieldJSONRPC)):
		return `member "jsonrpc" must be "2.0"`
	case !idOK:
		return `member "id" must be a string or an integer`
	case m.has(fieldMethod) && m.first(fieldMethod) != '"':
		return `member "method" must be a string`
	case m.has(fieldMethod) && (m.has(fieldResult) || m.has(fieldError)):
		return `a message with "method" must not have "result" or "error"`
	case m.has(fieldResult) && m.has(fieldError):
		return `a response must not have both "result" and "error"`
	case kind == Invalid:
		return `a message must have "method", "result" or "error"`
	case kind == Response && m.has(fieldResult) && id.IsZero():
		return `member "id" is missing`
	case m.has(fieldError) && m.first(fieldError) != '{':
		return `member "error" must be an object`
	case m.has(fieldParams) && m.first(fieldParams) != '{' && m.first(fieldParams) != '[':
		return `member "params" must be an object or an array`
	}
	return ""
}

func (m *fields) fillName(env *Envelope, target string) {
	var v jsontext.Value
	switch target {
	case "name":
		v = m.raw(fieldName)
	case "uri":
		v = m.raw(fieldURI)
	case "taskId":
		v = m.raw(fieldTaskID)
	}
	if isString(v) {
		env.Name, env.HasName = stringOf(v), true
	}
}

func (m *fields) cancel() *Cancel {
	c := &Cancel{Reason: stringOf(m.raw(fieldReason))}
	if m.has(fieldRequestID) {
		c.HasRequestID = true
		id, err := parseID(m.raw(fieldRequestID))
		c.RequestID, c.RequestIDOK = id, err == nil
	}
	return c
}

// A method is a method of the protocol with the member of params that names its target
// (see [mcp.NameMember]).
type method struct{ name, target string }

// methods has all methods by their names. It is never written to.
var methods = func() map[string]method {
	m := map[string]method{}
	for _, name := range mcp.Methods() {
		m[name] = method{name, mcp.NameMember(name)}
	}
	return m
}()

// internMethod returns the method with the name b. It allocates nothing for the methods
// of the protocol. The plain version is string(b) and a look-up of its target.
func internMethod(b []byte) method {
	if m, ok := methods[string(b)]; ok {
		return m
	}
	return method{name: string(b)}
}
