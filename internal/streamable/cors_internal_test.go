package streamable

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsOrigin(t *testing.T) {
	for _, value := range []string{
		"null", "http://localhost", "http://localhost:3000", "https://app.example", "http://127.0.0.1:1", "http://[::1]:5",
		"chrome-extension://abcdef", "https://xn--bcher-kva.example",
	} {
		require.True(t, isOrigin(value), value)
	}
	for _, value := range []string{
		"", " ", "*", "localhost", "//localhost", "http://", "http://localhost/", "http://localhost/x", "http://localhost?x",
		"http://localhost#x", "http://a@localhost", "Endpoint://localhost", "http://localhost, http://evil", "http://a b", "http://a,b",
		"http://a\"b", "http://a;b", "http://a<b>", "http://bücher.example", "http://a\r\nX: y", "http://a\x7f", "Null",
		"http://%6cocalhost", "data:text/plain,x",
	} {
		require.False(t, isOrigin(value), value)
	}
}

func TestIsToken(t *testing.T) {
	require.True(t, isToken("Mcp-Param-a_b.c~1!#$%&'*+^`|"))
	for _, value := range []string{"", "a b", "a:b", "a\tb", "a\r\nb", "é", `"a"`, "a/b", "a,b"} {
		require.False(t, isToken(value), value)
	}
}

// A preflight response is at most as large as the headers that the page asks for.
func TestAskedParamsAreBounded(t *testing.T) {
	asked := strings.Repeat("mcp-param-a,", 1000)
	require.LessOrEqual(t, len(askedParams([]string{asked})), 2*len(asked))
}

// An exchange without an Origin header does no work for pages.
func TestExchangeWithoutOriginAllocatesNothingForCORS(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	x := &exchange{Endpoint: &Endpoint{}, w: httptest.NewRecorder(), r: r}
	require.Zero(t, testing.AllocsPerRun(100, func() { x.cors(); x.preflight() }))
	require.Equal(t, http.Header{}, x.w.Header())
}
