package adapt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A member with a wrong type does not hide the others: policies are asked about the target.
func TestIllTypedParamsAreIgnored(t *testing.T) {
	for params, want := range map[string]Params{
		`{"_meta":5,"uri":"note://1"}`:    {Target: "note://1"},
		`{"uri":"note://1","_meta":[{}]}`: {Target: "note://1"},
		`{"uri":"note://1","_meta":null}`: {Target: "note://1"},
		`{"uri":"note://1","name":[]}`:    {Target: "note://1"},
		`{"uri":["note://1"]}`:            {},
		`{"uri":"note://1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":5,"baggage":"a=b"}}`: {
			Target: "note://1", Version: mcp.Version20260728, trace: carrier{mcp.MetaBaggage: "a=b"},
		},
	} {
		read, agreed := ReadParams(mcp.MethodResourcesSubscribe, []byte(params))
		require.True(t, agreed, params)
		if want.trace == nil {
			want.trace = carrier{}
		}
		require.Equal(t, want, read, params)
	}
	for _, params := range []string{`[]`, `{"uri":"a","uri":"b"}`, `{"uri":"a","_meta":{"x":1,"x":2}}`} {
		_, agreed := ReadParams(mcp.MethodResourcesSubscribe, []byte(params))
		require.False(t, agreed, params)
	}
}

// A cancellation counts as the client's although its reason has a wrong type.
func TestIllTypedReasonIsIgnored(t *testing.T) {
	a := New(telemetry.Disabled())
	call := &Call{adapter: a, id: callID{"session", mcp.IntID(1).Key()}}
	a.identify(call)
	a.NoticeCancelled("session", []byte(`{"requestId":1,"reason":5}`))
	require.NotNil(t, call.asked.Load())
	require.Equal(t, mcp.CauseClientCancel, call.asked.Load().Cause)
}
