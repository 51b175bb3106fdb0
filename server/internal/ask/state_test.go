package ask

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func secret(b byte) []byte { return append(bytes.Repeat([]byte{b}, seal.MinKeyBytes-1), ^b) }

func ring(t testing.TB, name string, secrets ...[]byte) seal.Ring {
	t.Helper()
	r, err := newRing(name, secrets)
	require.NoError(t, err)
	return r
}

// Servers with one secret do not accept the states of each other.
func TestStatesBelongToAServer(t *testing.T) {
	_, fault := ring(t, "other", secret(1)).Open(ring(t, "s", secret(1)).Seal(nil))
	require.Equal(t, mcp.StateForeign, fault)
	_, err := newRing("s", [][]byte{secret(1)[1:]})
	require.EqualError(t, err, "server: state key 1 has 31 bytes and needs 32")
}

func inbound(method, name, arguments string) *session.Inbound {
	in := &session.Inbound{Envelope: wire.Envelope{Method: method, Name: name}}
	if arguments != "" {
		in.Arguments = jsontext.Value(arguments)
	}
	return in
}

// What a state is bound to, and what may differ between rounds.
func TestBinding(t *testing.T) {
	base, err := bindingOf(inbound("tools/call", "t", `{"a":1,"b":[1,2]}`), "ann")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		in        *session.Inbound
		principal string
		want      mcp.StateFault
	}{
		"the same":                {inbound("tools/call", "t", `{"a":1,"b":[1,2]}`), "ann", ""},
		"white space and order":   {inbound("tools/call", "t", ` { "b" : [1, 2], "a":1}`), "ann", ""},
		"an escape":               {inbound("tools/call", "t", `{"\u0061":1,"b":[1,2]}`), "ann", ""},
		"another value":           {inbound("tools/call", "t", `{"a":2,"b":[1,2]}`), "ann", mcp.StateArguments},
		"one more":                {inbound("tools/call", "t", `{"a":1,"b":[1,2],"c":null}`), "ann", mcp.StateArguments},
		"another order":           {inbound("tools/call", "t", `{"a":1,"b":[2,1]}`), "ann", mcp.StateArguments},
		"no arguments":            {inbound("tools/call", "t", ``), "ann", mcp.StateArguments},
		"another tool":            {inbound("tools/call", "u", `{"a":1,"b":[1,2]}`), "ann", mcp.StateTarget},
		"another method":          {inbound("prompts/get", "t", `{"a":1,"b":[1,2]}`), "ann", mcp.StateTarget},
		"parts moved":             {inbound("tools/cal", "lt", `{"a":1,"b":[1,2]}`), "ann", mcp.StateTarget},
		"somebody else":           {inbound("tools/call", "t", `{"a":1,"b":[1,2]}`), "bob", mcp.StatePrincipal},
		"nobody":                  {inbound("tools/call", "t", `{"a":1,"b":[1,2]}`), "", mcp.StatePrincipal},
		"everything is another's": {inbound("x", "y", `{}`), "bob", mcp.StatePrincipal},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := bindingOf(tt.in, tt.principal)
			require.NoError(t, err)
			st := requestState{Binding: base, Expires: 100}
			require.Equal(t, tt.want, st.fault(want, time.Unix(99, 0)))
		})
	}
	st := requestState{Binding: base, Expires: 100}
	require.Equal(t, mcp.StateExpired, st.fault(base, time.Unix(100, 0)))
}

// Two numbers that a float64 cannot tell apart are different.
func TestLargeNumbersAreNotRounded(t *testing.T) {
	a, err := bindingOf(inbound("m", "", `{"n":9007199254740993}`), "")
	require.NoError(t, err)
	b, err := bindingOf(inbound("m", "", `{"n":9007199254740992}`), "")
	require.NoError(t, err)
	require.NotEqual(t, a.Arguments, b.Arguments)
	raw := `{"b":1,"a":2}`
	in := inbound("m", "", raw)
	_, err = bindingOf(in, "")
	require.NoError(t, err)
	require.Equal(t, raw, string(in.Arguments), "the frame is not written to")
}

// Each fault has a text of its own.
func TestStateErrors(t *testing.T) {
	seen := map[string]bool{}
	for _, fault := range mcp.StateFaults() {
		err := stateError(fault, "")
		want := mcp.CodeInvalidParams
		if fault == mcp.StateUnchecked { // the store is away, and the client has made no mistake
			want = mcp.CodeInternalError
		}
		require.Equal(t, want, err.Code)
		require.Equal(t, mcp.ErrorData{Reason: string(fault)}, err.Data)
		require.Greater(t, len(err.Message), len("params.requestState "), fault)
		require.False(t, seen[err.Message], fault)
		seen[err.Message] = true
	}
}

// FuzzUnseal holds that nothing but what was sealed opens, and that nothing panics.
func FuzzUnseal(f *testing.F) {
	srv, err := New(session.New(session.Config{}), nil, slog.New(slog.DiscardHandler), "fuzz", [][]byte{secret(1), secret(2)}, nil)
	require.NoError(f, err)
	want, err := bindingOf(inbound("tools/call", "t", `{}`), "")
	require.NoError(f, err)
	sealed, err := srv.sealState(requestState{
		Binding: want, Round: 3, Kept: jsontext.Value(`{"a":1}`),
		Answers: map[string]answer{"k": {Asked: digestOf("x"), Value: jsontext.Value(`{"action":"accept"}`)}},
	})
	require.NoError(f, err)
	for _, seed := range []string{sealed, sealed + "-TAMPERED", sealed[1:], "", "AQ", ring(f, "fuzz", secret(1)).Seal([]byte("{}")), ring(f, "x", secret(1)).Seal([]byte("{}"))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, refused := srv.unsealState(text, want)
		if (st == nil) == (refused == nil) {
			t.Fatal("neither a state nor an error, or both")
		}
		if refused != nil {
			if refused.Code != mcp.CodeInvalidParams || refused.Data.(mcp.ErrorData).Reason == "" {
				t.Fatalf("%v %v", refused, refused.Data)
			}
			return
		}
		// Compared by its content: each process of the fuzzer seals its own.
		if st.Round != 3 || string(st.Kept) != `{"a":1}` || len(st.Answers) != 1 {
			t.Fatalf("%+v was never sealed", st)
		}
	})
}

// Compiled forms are cached, within bounds.
func TestFormsAreKept(t *testing.T) {
	var f forms
	form := func(n int) jsontext.Value {
		return jsontext.Value(`{"type":"object","title":"` + strings.Repeat("x", n) + `","properties":{}}`)
	}
	first, err := f.parse(form(1))
	require.NoError(t, err)
	again, err := f.parse(form(1))
	require.NoError(t, err)
	require.Same(t, first, again)
	for n := range 3 * maxForms {
		_, err := f.parse(form(n))
		require.NoError(t, err)
		require.LessOrEqual(t, len(f.bySchema), maxForms)
	}
	f = forms{}
	_, err = f.parse(form(maxFormBytes))
	require.NoError(t, err)
	_, err = f.parse(jsontext.Value(`{}`))
	require.Error(t, err)
	require.Empty(t, f.bySchema)
}
