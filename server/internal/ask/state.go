package ask

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The client holds the state of a request between two rounds (specification: "Multi Round-Trip
// Requests", requestState). It can send it late, to another replica, or hand it to somebody
// else. So the state is sealed: only a server with the key can read or make one. The state names
// the request that it belongs to.

// A requestState is what the client carries from one round to the next.
type requestState struct {
	Binding binding `json:"for"`
	// Expires is in seconds since 1970.
	Expires int64 `json:"exp"`
	// Round is how many rounds are over.
	Round   int               `json:"round"`
	Answers map[string]answer `json:"answers,omitempty"`
	// Asked are the questions of the last round.
	Asked map[string]digest `json:"asked,omitempty"`
	// Methods are the methods of these questions. It is nil in the states of older versions.
	Methods map[string]string `json:"methods,omitempty"`
	// Malformed is how many answers to these questions were malformed, one after the other. Older versions neither write nor read it.
	Malformed map[string]int `json:"malformed,omitempty"`
	Kept      jsontext.Value `json:"kept,omitzero"`
	// TraceParent names the span of the last round. The span of the next round links it.
	TraceParent string `json:"traceparent,omitempty"`
	// Ticket names a state that may be used once.
	Ticket ticket `json:"ticket,omitzero"`
}

// A binding names the request and the principal of a state. The parts are hashed separately, so
// that an error can name the one that differs.
type binding struct {
	Target    digest `json:"target"` // with the method
	Arguments digest `json:"arguments"`
	Principal digest `json:"principal"`
}

func bindingOf(in *session.Inbound, principal string) (binding, error) {
	arguments, err := canonical(in.Arguments)
	return binding{
		Target:    digestOf(in.Method, in.Name),
		Arguments: digestOf(string(arguments)),
		Principal: digestOf(principal),
	}, err
}

// canonical returns the arguments of a request in a form that does not depend on white space,
// escapes and the order of members. Numbers stay as they are written: RFC 8785 rounds them to a
// float64, so that two different numbers could become equal.
func canonical(arguments jsontext.Value) (jsontext.Value, error) {
	if arguments == nil {
		return jsontext.Value("{}"), nil
	}
	c := arguments.Clone()
	return c, c.Format(jsontext.AllowDuplicateNames(true), // there are none: they came in a message
		jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
}

// sealState returns the text of a sealed state, or an error if it is too large.
func (a *Asker) sealState(st requestState) (string, error) {
	now := time.Now()
	end := now.Add(a.core.Limits().StateTTL)
	st.Expires = end.Unix()
	if a.tickets != nil {
		st.Ticket = a.tickets.issue(now, end)
	}
	plain, err := wire.Marshal(nil, st)
	if err != nil {
		return "", fmt.Errorf("encode the request state: %w", err)
	}
	answers := seal.TextLen(answersSize(st.Answers))
	if err := a.checkStateSize(seal.SealedLen(len(plain)), answers); err != nil {
		return "", err
	}
	return a.keys.Load().Seal(plain), nil
}

func answersSize(answers map[string]answer) (size int) {
	for _, a := range answers {
		size += len(a.Value)
	}
	return size
}

// checkStateSize returns an error if a state of size bytes is too large. It is the client's
// fault if the state would fit without its answers.
func (a *Asker) checkStateSize(size, answers int) error {
	limit := a.core.Limits().MaxStateBytes
	if size <= limit {
		return nil
	}
	a.core.LimitReached(limits.NameStateBytes)
	code := mcp.CodeInternalError
	if size-answers <= limit {
		code = mcp.CodeInvalidParams
	}
	return mcp.NewError(code, "the request has collected more state than %s allows", limits.NameStateBytes).
		WithData(mcp.ErrorData{Limit: limits.NameStateBytes})
}

// unsealState returns the state in a text of the client, or an error if it is not the state of
// this request.
func (a *Asker) unsealState(text string, want binding) (*requestState, *mcp.Error) {
	if len(text) > a.core.Limits().MaxStateBytes {
		a.core.LimitReached(limits.NameStateBytes)
		return nil, stateError(mcp.StateTooLarge, limits.NameStateBytes)
	}
	plain, fault := a.keys.Load().Open(text)
	if fault != "" {
		return nil, stateError(fault, "")
	}
	st := new(requestState)
	if json.Unmarshal(plain, st) != nil { // sealed by another version of this program
		return nil, stateError(mcp.StateMalformed, "")
	}
	if fault := st.fault(want, time.Now()); fault != "" {
		return nil, stateError(fault, "")
	}
	if fault := a.use(st); fault != "" {
		return nil, stateError(fault, "")
	}
	return st, nil
}

// use uses a state, if it may be used once. It returns why it may not, or "".
func (a *Asker) use(st *requestState) mcp.StateFault {
	switch {
	case a.tickets == nil:
		return ""
	case a.uses == nil:
		if !a.tickets.use(st.Ticket) {
			return mcp.StateUsed
		}
		return ""
	case st.Ticket.Process == "": // it was issued without the option
		return mcp.StateUsed
	}
	key := "state/" + st.Ticket.Process + "/" + strconv.FormatUint(st.Ticket.Number, 10)
	claimed, err := a.uses.Claim(context.Background(), key, nil, time.Until(time.Unix(st.Expires, 0))+time.Minute) // clocks differ
	switch {
	case err != nil:
		return mcp.StateUnchecked
	case !claimed:
		return mcp.StateUsed
	}
	return ""
}

// fault returns why an authentic state is not accepted, or "".
func (st *requestState) fault(want binding, now time.Time) mcp.StateFault {
	same := func(a, b digest) bool { return string(a) == string(b) }
	switch {
	case !same(st.Binding.Principal, want.Principal):
		return mcp.StatePrincipal
	case !same(st.Binding.Target, want.Target):
		return mcp.StateTarget
	case !same(st.Binding.Arguments, want.Arguments):
		return mcp.StateArguments
	case now.Unix() >= st.Expires:
		return mcp.StateExpired
	}
	return ""
}

// stateError is the answer to a state that is not accepted.
func stateError(fault mcp.StateFault, limit string) *mcp.Error {
	text := map[mcp.StateFault]string{
		mcp.StateMalformed: "is none that this server has issued",
		mcp.StateTooLarge:  "is longer than " + limit + " allows",
		mcp.StateForeign:   "was sealed with a key that this server does not have",
		mcp.StateChanged:   "was changed",
		mcp.StateExpired:   "has expired: begin again without it",
		mcp.StatePrincipal: "was issued to somebody else",
		mcp.StateTarget:    "was issued for another request",
		mcp.StateArguments: "was issued for other arguments",
		mcp.StateUsed:      "was used before, or was issued by a process that does not share its uses: begin again without it",
	}[fault]
	if fault == mcp.StateUnchecked {
		return mcp.NewError(mcp.CodeInternalError, "params.requestState may be used once, and the store that says whether it was is away: try again").
			WithData(mcp.ErrorData{Reason: string(fault)})
	}
	return mcp.NewError(mcp.CodeInvalidParams, "params.requestState %s", text).
		WithData(mcp.ErrorData{Reason: string(fault), Limit: limit})
}
