package gosdk_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/adapters/gosdk"
	"github.com/vitrine-mcp/vitrine/audit"
	identity "github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// ann lets everybody in as ann.
var ann = identity.AuthenticatorFunc(func(context.Context, *identity.Caller) (*identity.Principal, error) {
	return &identity.Principal{Subject: "ann"}, nil
})

// holdNotifications makes notifications/roots/list_changed wait. The SDK then dispatches nothing that comes
// after it in the session. held gets a value when one waits.
func (w *world) holdNotifications() (held <-chan struct{}, release func()) {
	waits, released := make(chan struct{}, 1), make(chan struct{})
	w.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "notifications/roots/list_changed" {
				waits <- struct{}{}
				<-released
			}
			return next(ctx, method, req)
		}
	})
	return waits, func() { close(released) }
}

const (
	initialize   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	rootsChanged = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
)

// addsHeader adds a header to a clone of each request. The request itself is then garbage.
func addsHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = req.Clone(req.Context())
		req.Header.Set("X-Added", "yes")
		collectGarbage()
		next.ServeHTTP(w, req)
	})
}

// copiesHeader serves a copy of each request whose header shares nothing with that of the request.
func copiesHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = req.Clone(req.Context())
		for _, values := range req.Header {
			for i := range values {
				values[i] = strings.Clone(values[i])
			}
		}
		collectGarbage()
		next.ServeHTTP(w, req)
	})
}

// collectGarbage collects garbage and runs the cleanups of what it has found.
func collectGarbage() {
	for range 3 {
		cleaned := make(chan struct{})
		runtime.AddCleanup(new([64]byte), func(cleaned chan struct{}) { close(cleaned) }, cleaned)
		runtime.GC()
		<-cleaned
	}
}

// The adapter knows the caller of a request, whatever a handler between it and the SDK does to the header.
func TestCallOfCopiedRequestKeepsItsCaller(t *testing.T) {
	for _, version := range []string{legacy, modern} {
		for name, between := range map[string]func(http.Handler) http.Handler{"cloned": addsHeader, "copied": copiesHeader} {
			t.Run(name+", "+version, func(t *testing.T) {
				w := newWorld(t)
				w.adapter.Authenticate(ann)
				url := w.listen(w.adapter.HTTP(between(w.sdkHandler(version))))
				session := w.dial(newClient(), &sdk.StreamableClientTransport{Endpoint: url}, version)
				_, err := call(t, session, "add", sum{1, 2})
				require.NoError(t, err)
			})
		}
	}
}

// A call belongs to its caller, also if the client disconnects before the SDK dispatches the call. In
// revisions before 2026-07-28 a disconnect cancels nothing, so the call is served.
func TestCallOfDisconnectedClientIsServed(t *testing.T) {
	t.Run("the request", func(t *testing.T) {
		servesCallOfDisconnectedClient(t, func(next http.Handler) http.Handler { return next })
	})
	t.Run("a clone of the request", func(t *testing.T) { servesCallOfDisconnectedClient(t, addsHeader) })
}

func servesCallOfDisconnectedClient(t *testing.T, between func(http.Handler) http.Handler) {
	w := newWorld(t)
	w.adapter.Authenticate(ann)
	log, records := w.NewAudit()
	w.adapter.Audit(log)
	held, release := w.holdNotifications()
	taken, left := make(chan struct{}), make(chan struct{})
	inner := between(w.sdkHandler(legacy))
	url := w.listen(w.adapter.HTTP(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Test") == "call" { // its body was read
			close(taken)
			defer close(left)
		}
		inner.ServeHTTP(rw, req)
	})))
	session := post(t, t.Context(), url, "", initialize)
	post(t, t.Context(), url, session, rootsChanged)
	adapttest.Receive(t, held, "the notification")

	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
		strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"A":1,"B":2}}}`))
	require.NoError(t, err)
	call.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {legacy}, "X-Test": {"call"},
	}
	go func() {
		<-taken
		hangUp()
	}()
	_, err = http.DefaultClient.Do(call)
	require.ErrorIs(t, err, context.Canceled)
	adapttest.Receive(t, left, "the end of the POST")
	collectGarbage()
	release()

	site := &adapttest.Site{Rig: w.Rig, Records: records}
	record := site.Record("tools/call", "add")
	require.Equal(t, "ann", record.Principal.Subject)
	require.Equal(t, audit.OutcomeOK, record.Outcome)
	require.Zero(t, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "unauthenticated"}))
	require.Empty(t, w.Ended("tools/call").CancelCause)
}

// A middleware of the SDK may serve a call again. It is still that of its caller.
func TestCallThatIsServedAgainKeepsItsCaller(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		w.adapter.Authenticate(ann)
		w.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "tools/call" {
					if _, err := next(ctx, method, req); err != nil {
						return nil, err
					}
				}
				return next(ctx, method, req)
			}
		})
		result, err := call(t, wire.connect(w), "add", sum{2, 3})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"Sum": 5.0}, result.StructuredContent)
	})
}

// The adapter forgets a message when the SDK does. The SDK refers to the last ones of an open session.
func TestMessagesAreForgotten(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		for range 10 {
			_, err := call(t, session, "add", sum{1, 2})
			require.NoError(t, err)
		}
		w.forgets()
	})
	t.Run("cloned", func(t *testing.T) {
		w := newWorld(t)
		url := w.listen(w.adapter.HTTP(addsHeader(w.sdkHandler(legacy))))
		session := w.dial(newClient(), &sdk.StreamableClientTransport{Endpoint: url}, legacy)
		for range 10 {
			_, err := call(t, session, "add", sum{1, 2})
			require.NoError(t, err)
		}
		w.forgets()
	})
	t.Run("not dispatched", func(t *testing.T) {
		w := newWorld(t)
		url := w.serveHTTP(legacy)
		session := post(t, t.Context(), url, "", initialize)
		for range 10 {
			post(t, t.Context(), url, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":1}}`)
		}
		require.NotContains(t, w.SpanNames(), "tools/call")
		w.forgets()
	})
}

// forgets requires that the adapter remembers nearly nothing.
func (w *world) forgets() {
	w.t.Helper()
	w.Eventually(func() bool {
		runtime.GC()
		return gosdk.Remembered(w.adapter) <= 2
	}, "a short memory")
}
