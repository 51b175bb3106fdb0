package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// TestModernClientThatNeverAnswers checks that the page tells a modern version that never comes back with
// its state from one that does, and that an answer at another replica is counted there.
func TestModernClientThatNeverAnswers(t *testing.T) {
	serve := func() (*server.Server, *rawPipe) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel), server.WithStateKeys(stateKey(1)))
		addTwo(srv)
		return srv, dial(t, srv)
	}
	here, p := serve()
	there, other := serve()
	from := func(version, params string) string {
		return params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
			allCapabilitiesJSON + `,"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"` + version + `"}}`
	}
	send := func(p *rawPipe, params string) (state string) {
		answer := p.ask(legacy(1, "tools/call", params))
		_, rest, asked := strings.Cut(answer, `"requestState":"`)
		if asked {
			state, _, _ = strings.Cut(rest, `"`)
		}
		return state
	}
	two := call("two", `{}`)
	send(p, from("4.3.0", two))
	send(p, from("4.3.0", two))
	state := send(p, from("4.2.9", two))
	state = send(p, from("4.2.9", retry(two, state, "one", accepted("1"))))
	require.NotEmpty(t, state)
	require.Empty(t, send(other, from("4.2.9", retry(two, state, "two", accepted("2")))))

	var page, others report.Requests
	readPage(t, here.Telemetry().RequestsHandler(), "/debug/requests", "", &page)
	require.Equal(t, []report.Question{
		{Method: "elicitation/create", Client: "desk", ClientVersion: "4.3.0", Asked: 2, Unanswered: map[string]uint64{"not_returned": 2}},
		{Method: "elicitation/create", Client: "desk", ClientVersion: "4.2.9", Asked: 2, Answered: 1, Unanswered: map[string]uint64{"not_returned": 1}},
	}, page.Questions)
	readPage(t, there.Telemetry().RequestsHandler(), "/debug/requests", "", &others)
	require.Equal(t, []report.Question{
		{Method: "elicitation/create", Client: "desk", ClientVersion: "4.2.9", Answered: 1, Unanswered: map[string]uint64{}},
	}, others.Questions)
}
