package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestFloodDoesNotFillTheLog: who sends nonsense, or is refused for Host or Origin, is in
// the log, once a second for each reason, with the number of those that are not.
func TestFloodDoesNotFillTheLog(t *testing.T) {
	refuse := func(reason mcp.RefuseReason) func(*world, ...any) {
		return func(w *world, sender ...any) {
			w.core.RefuseExchange(w.t.Context(), &RefusedExchange{Reason: reason}, sender...)
		}
	}
	for record, send := range map[string]func(*world, ...any){
		"http.refused remote=192.0.2.0:1 reason=host":   refuse(mcp.RefuseHost),
		"http.refused remote=192.0.2.0:1 reason=origin": refuse(mcp.RefuseOrigin),
		"frame.malformed remote=192.0.2.0:1 reason=parse_error": func(w *world, sender ...any) {
			_, bad := inbound(nil, "{")
			w.core.Malformed(bad, w.core.Exchange(&Conn{Transport: "http"}, 1, mcp.Modern), false, sender...)
		},
		"frame.malformed session=stdio reason=too_large": func(w *world, _ ...any) {
			w.connect(true).s.Malformed(&wire.Error{Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge, Message: "too large"})
		},
	} {
		t.Run(record, func(t *testing.T) {
			inWorld(t, limits.Limits{}, func(w *world) {
				flood := func(n int) (lines []string) {
					w.log.forget()
					for range n {
						send(w, "remote", "192.0.2.0:1")
					}
					w.settle()
					for _, line := range w.log.details {
						if strings.HasPrefix(line, "INFO "+record) {
							lines = append(lines, line)
						}
					}
					return lines
				}
				lines := flood(20)
				require.Len(w.t, lines, 1)
				require.Contains(w.t, lines[0], "silenced=0")
				require.Empty(w.t, flood(20))
				time.Sleep(time.Second)
				lines = flood(20)
				require.Len(w.t, lines, 1)
				require.Contains(w.t, lines[0], "silenced=39")
			})
		})
	}
}
