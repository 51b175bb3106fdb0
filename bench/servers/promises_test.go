package servers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	promisedMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	promisedCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + promisedMeta + `,"name":"echo","arguments":{"text":"x"}}}`
)

// modernHeaders are those of promisedCall.
var modernHeaders = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": Echo}

// post returns a request with a message, and with some headers.
func post(t *testing.T, url, body string, headers map[string]string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

// do sends a request and returns its answer.
func do(t *testing.T, r *http.Request) (int, string, http.Header) {
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body), answer.Header
}

// A server with promises answers like the floor, and keeps its promises.
func TestServerWithPromisesKeepsThem(t *testing.T) {
	for _, kind := range promisingKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			s, err := kind.New(3)
			require.NoError(t, err)
			listener := httptest.NewServer(s.Modern)
			defer listener.Close()
			_, body, _ := do(t, post(t, listener.URL, promisedCall, modernHeaders))
			require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}},`+
				`"content":[{"type":"text","text":"x"}]}}`, body)
			p, ok := s.Modern.(*promising)
			if !ok {
				p = s.Modern.(*complete).promising
			}
			require.Empty(t, p.live)
			require.Empty(t, p.slots)
		})
	}
}

// A client that disconnects does not wait for a handler that hangs.
func TestDisconnectDoesNotWaitForTheHandler(t *testing.T) {
	s := newPromising(3, counted).Modern.(*promising)
	s.slots = make(chan struct{}, 1)
	s.slots <- struct{}{} // the handler hangs
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodPost, "/", strings.NewReader(promisedCall))
	_, err := s.serve(httptest.NewRecorder(), r, func(ctx context.Context, body []byte) ([]byte, error) { return s.answer(ctx, body, r) })
	require.ErrorIs(t, err, errGone)
	<-s.slots
}

// A handler that panics affects no other call.
func TestPanicAffectsNoOtherCall(t *testing.T) {
	s := newPromising(3, counted).Modern.(*promising)
	s.live = nil // the handler panics
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(promisedCall))
	_, err := s.serve(httptest.NewRecorder(), r, func(ctx context.Context, body []byte) ([]byte, error) { return s.answer(ctx, body, r) })
	require.ErrorContains(t, err, "internal error")
}
