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
