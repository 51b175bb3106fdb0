package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// TestModernClientThatNeverAnswers checks that the page has the open questions of modern clients and their age, that it
// tells a version that never comes back with its state from one that does, and that an answer at another replica is
// counted there.
func TestModernClientThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		send(p, from("4.3.1", two))
		time.Sleep(2 * time.Minute)
		later := send(p, from("4.3.1", two))
		send(p, from("4.3.1", retry(two, later, "one", accepted("1")))) // not to the older question
		send(p, from("4.3.0", two))
		state := send(p, from("4.2.9", two))
		time.Sleep(time.Minute)
		state = send(p, from("4.2.9", retry(two, state, "one", accepted("1"))))
		require.NotEmpty(t, state)
		require.Empty(t, send(other, from("4.2.9", retry(two, state, "two", accepted("2")))))

		row := func(version string, row report.Question) report.Question {
			row.Method, row.Client, row.ClientVersion = "elicitation/create", "desk", version
			return row
		}
		none := map[string]uint64{}
		require.Equal(t, []report.Question{
			row("4.3.1", report.Question{Asked: 3, Open: 2, Answered: 1, OldestAgeSeconds: 180, Unanswered: none}),
			row("4.3.0", report.Question{Asked: 2, Open: 2, OldestAgeSeconds: 180, Unanswered: none}),
			row("4.2.9", report.Question{Asked: 2, Open: 1, Answered: 1, Unanswered: none}),
		}, requestsPage(t, here).Questions)
		require.Equal(t, []report.Question{row("4.2.9", report.Question{Answered: 1, Unanswered: none})}, requestsPage(t, there).Questions)

		time.Sleep(15 * time.Minute) // the states expire
		require.Equal(t, []report.Question{
			row("4.3.1", report.Question{Asked: 3, Answered: 1, Unanswered: map[string]uint64{"not_returned": 2}}),
			row("4.3.0", report.Question{Asked: 2, Unanswered: map[string]uint64{"not_returned": 2}}),
			row("4.2.9", report.Question{Asked: 2, Answered: 1, Unanswered: map[string]uint64{"not_returned": 1}}),
		}, requestsPage(t, here).Questions)
	})
}
