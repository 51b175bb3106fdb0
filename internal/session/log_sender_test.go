package session

import (
	"context"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// The log lines about requests that are not admitted, or lose their place in the queue, say whose they were.
func TestLogLinesOfRejectionsNameTheClient(t *testing.T) {
	from := func(addr, subject string) *Conn {
		conn := *httpConn
		conn.RemoteAddr, conn.Principal = addr, &auth.Principal{Subject: subject}
		return &conn
	}
	frame := func(id, version string) string {
		return strings.Replace(modernFrame(id, "work"), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"`+version+`"},`, 1)
	}
	inWorld(t, limits.Limits{MaxQueue: 2}, func(w *world) {
		g := w.gate("work", false)
		w.slowClass()
		ada, grace := from("192.0.2.7:1", "ada"), from("192.0.2.8:1", "grace")
		for _, id := range []string{"1", "2", "3"} {
			w.postFrom(ada, nil, frame(id, "1.0"))
			w.settle()
		}
		w.postFrom(ada, nil, frame("4", "1.1"))
		w.loggedWith("INFO request.rejected", "client=desk", "client_version=1.1", "principal=ada", "reason=overload")
		w.postFrom(grace, nil, frame("5", "1.2"))
		w.settle()
		w.loggedWith("INFO request.displaced", "client=desk", "client_version=1.0", "principal=ada")
		over := make(chan error, 1)
		go func() { over <- w.core.Shutdown(context.Background()) }()
		w.settle()
		w.loggedWith("INFO request.refused", "client=desk", "client_version=1.2", "principal=grace", "reason=shutting_down")
		g.next().finish("done")
		w.settle()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
