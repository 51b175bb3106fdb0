package streamable_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// A shouter changes the values of headers in their place.
type shouter struct{ http.ResponseWriter }

func (w shouter) WriteHeader(status int) {
	for _, values := range w.Header() {
		for i := range values {
			values[i] = strings.ToUpper(values[i])
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w shouter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A change to the headers of one response does not show in another.
func TestResponsesDoNotShareHeaders(t *testing.T) {
	h := streamable.New(newFake(t, limits.Limits{}).Core, streamable.Config{})
	typeOf := func(accept string, wrap func(http.ResponseWriter) http.ResponseWriter) string {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(modern(1, "echo")))
		for _, one := range append(modernHeaders("tools/call", "echo"), "Content-Type: application/json", "Accept: "+accept) {
			setHeader(r, one)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(wrap(w), r)
		require.Equal(t, http.StatusOK, w.Code)
		return w.Result().Header.Get("Content-Type")
	}
	plain := func(w http.ResponseWriter) http.ResponseWriter { return w }
	for _, form := range []string{"application/json", "text/event-stream"} {
		require.Equal(t, form, typeOf(form, plain))
		require.Equal(t, strings.ToUpper(form), typeOf(form, func(w http.ResponseWriter) http.ResponseWriter { return shouter{w} }))
		require.Equal(t, form, typeOf(form, plain))
	}
}

// A request with too many headers is refused, whatever their names are, and lets go of them: it
// lives until the rest of its body has come.
func TestTooManyHeadersAreLetGo(t *testing.T) {
	f := newFake(t, limits.Limits{MaxHeaders: 5})
	h := streamable.New(f.Core, streamable.Config{})
	for name, header := range map[string]http.Header{
		"values": {"User-Agent": {"tester"}, "X": {"1", "2", "3", "4", "5"}},
		"names":  {"User-Agent": {"tester"}, "A": {""}, "B": {""}, "C": {""}, "D": {""}, "E": {""}},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header = header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 431, w.Code, name)
		require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the header has more than 5 lines: max_headers is reached",`+
			`"data":{"limit":"max_headers"}}}`, w.Body.String())
		require.LessOrEqual(t, len(r.Header), 1, name)
	}
	require.EqualValues(t, 2, f.Conserved().LimitsReached[limits.NameHeaders])
}

// A large header counts as long as its request lives, with the body.
func TestLargeHeadersHaveABudget(t *testing.T) {
	f := newFake(t, limits.Limits{MaxBodyBytesPending: 12_000})
	h := streamable.New(f.Core, streamable.Config{})
	ask := func(bytes int, body string) int {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Large", strings.Repeat("x", bytes))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests {
			require.Contains(t, w.Body.String(), `"limit":"max_body_bytes_pending"`)
		}
		return w.Code
	}
	large := strings.Repeat(" ", 6000)
	require.Equal(t, http.StatusBadRequest, ask(5000, "{}"), "no message")
	require.Equal(t, http.StatusBadRequest, ask(0, large))
	require.Equal(t, http.StatusTooManyRequests, ask(12_000, "{}"))
	require.Equal(t, http.StatusTooManyRequests, ask(7000, large))
	require.Equal(t, http.StatusBadRequest, ask(5000, "{}"), "all is given back")
	f.Conserved()
}
