package streamable

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestEdgeChecksHostAndOrigin(t *testing.T) {
	const loopback, loopback6, public, unknown = "127.0.0.1:8080", "[::1]:8080", "192.0.2.1:8080", ""
	hosts := func(h ...string) edge { return edge{hosts: h} }
	origins := func(o ...string) edge { return edge{origins: o} }
	for _, tt := range []struct {
		name         string
		edge         edge
		local        string // the address of the listener
		host, origin string
		want         mcp.RefuseReason
	}{
		{"loopback", edge{}, loopback, "localhost:8080", "", ""},
		{"another port", edge{}, loopback, "localhost:1", "", ""},
		{"no port", edge{}, loopback, "localhost", "", ""},
		{"capitals", edge{}, loopback, "LocalHost", "", ""},
		{"address", edge{}, loopback, "127.0.0.1:8080", "", ""},
		{"address of the net", edge{}, loopback, "127.9.9.9", "", ""},
		{"v6", edge{}, loopback6, "[::1]:8080", "", ""},
		{"v6 without a port", edge{}, loopback6, "[::1]", "", ""},
		{"rebound name", edge{}, loopback, "evil.example:8080", "", mcp.RefuseHost},
		{"name that begins well", edge{}, loopback, "localhost.evil.example", "", mcp.RefuseHost},
		{"address that begins well", edge{}, loopback, "127.0.0.1.evil.example", "", mcp.RefuseHost},
		{"no name", edge{}, loopback, "", "", mcp.RefuseHost},
		{"listed name", hosts("box.example"), loopback, "box.example:8080", "", ""},
		{"listed name and port", hosts("box.example:1"), loopback, "box.example:8080", "", mcp.RefuseHost},
		{"any name", hosts("*"), loopback, "evil.example", "", ""},
		{"loopback beside a list", hosts("box.example"), loopback, "localhost", "", ""},
		{"public, any name", edge{}, public, "box.example", "", ""},
		{"public, listed", hosts("box.example"), public, "Box.Example:443", "", ""},
		{"public, not listed", hosts("box.example"), public, "evil.example", "", mcp.RefuseHost},
		{"public, loopback name", hosts("box.example"), public, "localhost", "", mcp.RefuseHost},
		{"no listener", edge{}, unknown, "box.example", "", ""},

		{"loopback page", edge{}, loopback, "localhost:8080", "http://localhost:3000", ""},
		{"loopback page, address", edge{}, loopback, "localhost:8080", "http://127.0.0.1", ""},
		{"loopback page, v6", edge{}, loopback, "localhost:8080", "http://[::1]:5", ""},
		{"page of another port, refused", edge{refuseLocal: true}, loopback, "localhost:8080", "http://localhost:3000", mcp.RefuseOrigin},
		{"page of another address, refused", edge{refuseLocal: true}, loopback, "localhost:8080", "http://127.0.0.1:8080", mcp.RefuseOrigin},
		{"page of the same port, others refused", edge{refuseLocal: true}, loopback, "localhost:8080", "http://localhost:8080", ""},
		{"listed page, others refused", edge{origins: []string{"http://localhost:3000"}, refuseLocal: true}, loopback, "localhost:8080", "http://localhost:3000", ""},
		{"foreign page", edge{}, loopback, "localhost:8080", "https://evil.example", mcp.RefuseOrigin},
		{"page that begins well", edge{}, loopback, "localhost:8080", "http://localhost.evil.example", mcp.RefuseOrigin},
		{"user in the page", edge{}, loopback, "localhost:8080", "http://localhost@evil.example", mcp.RefuseOrigin},
		{"opaque page", edge{}, loopback, "localhost:8080", "null", mcp.RefuseOrigin},
		{"no URL", edge{}, loopback, "localhost:8080", "http://%zz", mcp.RefuseOrigin},
		{"own page", hosts("box.example"), public, "box.example", "https://box.example", ""},
		{"own page, port of the list", hosts("box.example:8443"), public, "box.example:8443", "https://box.example:8443", ""},
		{"own page, any host", hosts("*"), public, "box.example", "https://box.example", ""},
		{"own page of a rebound name", edge{}, public, "evil.example", "https://evil.example", mcp.RefuseOrigin},
		{"own page, port of a rebound name", edge{}, public, "evil.example:8080", "http://evil.example:8080", mcp.RefuseOrigin},
		{"own page, no listener", edge{}, unknown, "evil.example", "http://evil.example", mcp.RefuseOrigin},
		{"own page, address", edge{}, public, "192.0.2.1:8080", "http://192.0.2.1:8080", ""},
		{"own page, v6", edge{}, public, "[2001:db8::1]:8080", "http://[2001:db8::1]:8080", ""},
		{"page of another address", edge{}, public, "192.0.2.1:8080", "http://192.0.2.2:8080", mcp.RefuseOrigin},
		{"name that ends like an address", edge{}, public, "192.0.2.1.evil.example", "http://192.0.2.1.evil.example", mcp.RefuseOrigin},
		{"two pages", edge{}, loopback, "localhost", "http://localhost, https://evil.example", mcp.RefuseOrigin},
		{"own page, another port", hosts("box.example"), public, "box.example", "https://box.example:444", mcp.RefuseOrigin},
		{"loopback page on a public listener", edge{}, public, "box.example", "http://localhost:3000", mcp.RefuseOrigin},
		{"listed page", origins("https://app.example"), public, "box.example", "https://app.example", ""},
		{"listed page, capitals", origins("https://App.example"), public, "box.example", "https://app.example", ""},
		{"listed page, any port", origins("https://app.example"), public, "box.example", "https://app.example:8443", ""},
		{"listed page, its port", origins("https://app.example:8443"), public, "box.example", "https://app.example:8443", ""},
		{"listed page, another port", origins("https://app.example:8443"), public, "box.example", "https://app.example", mcp.RefuseOrigin},
		{"listed page, another scheme", origins("https://app.example"), public, "box.example", "http://app.example", mcp.RefuseOrigin},
		{"a scheme is no page", origins("https"), public, "box.example", "https://app.example", mcp.RefuseOrigin},
		{"listed page, v6", origins("http://[::2]"), public, "box.example", "http://[::2]:80", ""},
		{"listed opaque page", origins("null"), public, "box.example", "null", ""},
		{"any page", origins("*"), public, "box.example", "https://evil.example", ""},
		{"Host comes first", origins("*"), loopback, "evil.example", "https://evil.example", mcp.RefuseHost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/mcp", nil)
			if tt.local != "" {
				addr, err := net.ResolveTCPAddr("tcp", tt.local)
				require.NoError(t, err)
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
			}
			r.Host = tt.host
			for _, origin := range strings.Split(tt.origin, ", ") {
				r.Header.Add("Origin", origin)
			}
			require.Equal(t, tt.want, tt.edge.check(r))
		})
	}
}

// If a stream fails before its answer, a legacy client learns that its session has ended, and a
// modern client that the server shuts down. The error has the id of the request.
func TestStreamThatFailsBeforeItsAnswer(t *testing.T) {
	for _, tt := range []struct {
		era    mcp.Era
		status int
		reason string
		closes string
	}{
		{mcp.Modern, http.StatusServiceUnavailable, "shutting_down", "close"},
		{mcp.Legacy, http.StatusNotFound, "session_unknown", ""},
	} {
		var ended exchangeEnds
		core := session.New(session.Config{Observer: &ended})
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequest("POST", "/", nil).WithContext(ctx)
		w := &leavingWriter{httptest.NewRecorder(), leave}
		x := &exchange{Endpoint: New(core, Config{}), w: w, r: r, rc: *http.NewResponseController(w), conn: new(Endpoint).connOf(r)}
		x.in = &session.Inbound{Envelope: wire.Envelope{Kind: wire.Request, ID: mcp.IntID(7)}, Era: tt.era}
		stream := core.Exchange(new(Endpoint).connOf(r), 1, tt.era)
		stream.Fail(mcp.DropSessionGone)
		require.False(t, x.respond(stream, tt.era, nil))
		require.Empty(t, ended.all, "a client that leaves with its answer has not left before it")
		require.Equal(t, tt.status, w.Code)
		require.Equal(t, tt.closes, w.Header().Get("Connection"))
		require.Contains(t, w.Body.String(), `"reason":"`+tt.reason+`"`)
		require.Contains(t, w.Body.String(), `"id":7`)
		require.NoError(t, core.Shutdown(t.Context()))
	}
}

// A leavingWriter is the response of a client that leaves as soon as it has the status.
type leavingWriter struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w *leavingWriter) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	w.leave()
}

// exchangeEnds notes the ends of exchanges that the core is told of.
type exchangeEnds struct {
	session.NopObserver
	all []*session.ExchangeEnd
}

func (e *exchangeEnds) ExchangeEnded(end *session.ExchangeEnd) { e.all = append(e.all, end) }
