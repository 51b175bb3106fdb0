package session

import (
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Each log line about a request that did not end well says whose it was, in both eras.
func TestLogLinesNameTheClient(t *testing.T) {
	conn := *httpConn
	conn.Principal = &auth.Principal{Subject: "ada"}
	who := []string{"client=desk", "client_version=4.3.0", "principal=ada"}
	modern := func(id string) string {
		return strings.Replace(modernFrame(id, "work"), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"4.3.0"},`, 1)
	}
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			inWorld(t, limits.Limits{RequestTimeout: time.Second}, func(w *world) {
				g := w.gate("work", false)
				s := w.openOver(&conn, "session")
				s.Initialize(&Peer{Version: mcp.Version20251125, Client: mcp.Implementation{Name: "desk", Version: "4.3.0"}})
				post := func(id string) *exchange {
					if era == mcp.Modern {
						return w.postFrom(&conn, nil, modern(id))
					}
					return w.postFrom(&conn, s, callFrame(id, "work"))
				}
				post("1")
				g.next()
				time.Sleep(2 * time.Second)
				w.settle()
				w.loggedWith("WARN request.deadline", append([]string{"started=true"}, who...)...)
				x := post("2")
				g.next()
				if era == mcp.Modern {
					x.leave()
				} else {
					w.tell(s, cancelFrame("2", "enough"))
				}
				w.settle()
				w.loggedWith("INFO request.cancelled", who...)
			})
		})
	}
}
