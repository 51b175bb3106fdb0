package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The client of Prometheus panics on a label that is not valid UTF-8. No text of a peer or a proxy makes one: labels have
// values of closed sets, names of the program, or texts that are made printable.
func TestTextsThatAreNotUTF8MakeValidLabels(t *testing.T) {
	const bad = "a\xff\xc3"
	tel, err := New(WithTenants(10))
	require.NoError(t, err)
	for _, method := range []string{bad, mcp.MethodToolsCall, mcp.MethodPromptsGet} {
		info := Info{
			Method: method, Version: bad, Network: bad, Protocol: bad, ProtocolVersion: bad, Transport: bad,
			RemoteAddr: bad, SessionID: bad, URI: bad, Header: map[string][]string{"Traceparent": {bad}},
			Client: &mcp.Implementation{Name: bad, Version: bad}, Principal: &auth.Principal{Subject: bad, Tenant: bad, Issuer: bad},
		}
		for _, failure := range []*mcp.Error{nil, (&mcp.Refusal{Reason: bad, By: bad}).RPC(), mcp.NewError(1, bad)} {
			_, op := tel.Begin(t.Context(), info)
			op.End(Outcome{Err: failure})
		}
		_, end := tel.Notification(t.Context(), info)
		end()
		tel.Session(info)(mcp.CauseClientDisconnect)
	}
	families := gather(t, tel.Registry())
	require.Zero(t, value(families, MetricPanics))
	require.EqualValues(t, 3, value(families, MetricRefusals, "reason", "a\ufffd\ufffd", "by", "a\ufffd\ufffd"))
	require.NoError(t, tel.Shutdown(t.Context()))
}
