package task

import (
	"errors"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// A storedCall is a call as the record of its task has it, so that another replica can begin its handler again. It has
// no credentials: no token, no HTTP header, and neither the state nor the answers of earlier rounds.
type storedCall struct {
	// Message is the request: with the arguments, and what _meta says of the client and its revision.
	Message   jsontext.Value `json:"message"`
	Transport string         `json:"transport,omitempty"`
	Address   string         `json:"address,omitempty"`
	Principal *principal     `json:"principal,omitempty"`
	// Limit is the limit that sets the TTL of the task, or "".
	Limit string `json:"limit,omitempty"`
}

// A principal is an [auth.Principal] as it is stored.
type principal struct {
	Issuer  string         `json:"issuer,omitempty"`
	Subject string         `json:"subject"`
	Tenant  string         `json:"tenant,omitempty"`
	Client  string         `json:"client,omitempty"`
	Scopes  []string       `json:"scopes,omitzero"`
	Actors  []string       `json:"actors,omitzero"`
	Expires time.Time      `json:"expires,omitzero"`
	Claims  map[string]any `json:"claims,omitzero"`
}

// maxCallBytes bounds a stored call. The rest of a record is for the questions of its task.
const maxCallBytes = maxRecordBytes / 2

var (
	errCallTooLarge = errors.New("the call is too large to be stored")
	errPrincipal    = errors.New("the principal has claims that JSON does not keep as they are")
)

// encodeCall returns a call as the record of its task has it.
func encodeCall(r *session.Request, limit string) (jsontext.Value, error) {
	call := storedCall{Limit: limit, Message: wire.AppendRequest(nil, r.ID, r.Method, paramsWithoutRounds(r.Params))}
	if r.Conn != nil {
		call.Transport, call.Address, call.Principal = r.Conn.Transport, r.Conn.RemoteAddr, (*principal)(r.Conn.Principal)
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxCallBytes {
		return nil, errCallTooLarge
	}
	var again storedCall
	if err := json.Unmarshal(raw, &again); err != nil {
		return nil, err
	}
	if !again.Principal.equal(call.Principal) {
		return nil, errPrincipal
	}
	return raw, nil
}

// paramsWithoutRounds returns params without the answers that a client has given before the call became a task: the
// next run asks again.
func paramsWithoutRounds(params jsontext.Value) jsontext.Value {
	kept := jsontext.Value{'{'}
	for name, value := range jsonvalue.Members(params) {
		if key := string(jsonvalue.Unquote(name)); key != "inputResponses" && key != "requestState" {
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(append(append(kept, name...), ':'), value...)
		}
	}
	return append(kept, '}')
}

// equal reports whether policies and handlers see the same principal.
func (p *principal) equal(other *principal) bool {
	if p == nil || other == nil {
		return p == other
	}
	a, b := *p, *other
	same := a.Expires.Equal(b.Expires)
	a.Expires, b.Expires = time.Time{}, time.Time{}
	return same && reflect.DeepEqual(a, b)
}

// decodeCall returns the request of a stored call, and the limit that sets the TTL of its task. The request begins the
// given run of its handler, in the trace of the first one.
func decodeCall(rec *store.TaskRecord, run *Run, lim wire.Limits) (in *session.Inbound, limit string, err error) {
	var call storedCall
	if err := json.Unmarshal(rec.Call, &call); err != nil {
		return nil, "", err
	}
	message, err := wire.Decode(call.Message, lim)
	if err != nil {
		return nil, "", err
	}
	in = era.StoredCall(message)
	in.Bytes, in.Values, in.Restarted = len(call.Message), observe.ContextOf(rec.Trace), run
	in.Conn = &session.Conn{Transport: call.Transport, RemoteAddr: call.Address, Principal: (*auth.Principal)(call.Principal)}
	return in, call.Limit, nil
}
