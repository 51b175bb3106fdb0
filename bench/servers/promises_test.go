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

const promisedCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`

// A server with promises answers like the floor, and keeps its promises.
func TestServerWithPromisesKeepsThem(t *testing.T) {
	for _, kind := range promisingKinds() {
		t.Run(kind.Name, func(t *testing.T) {
			s, err := kind.New(3)
			require.NoError(t, err)
			listener := httptest.NewServer(s.Modern)
			defer listener.Close()
			answer, err := http.Post(listener.URL, "application/json", strings.NewReader(promisedCall))
			require.NoError(t, err)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`, string(body))
			require.Empty(t, s.Modern.(*promising).live)
			require.Empty(t, s.Modern.(*promising).slots)
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
	_, err := s.serve(httptest.NewRecorder(), r)
	require.ErrorIs(t, err, errGone)
	<-s.slots
}

// A handler that panics affects no other call.
func TestPanicAffectsNoOtherCall(t *testing.T) {
	s := newPromising(3, counted).Modern.(*promising)
	s.live = nil // the handler panics
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(promisedCall))
	_, err := s.serve(httptest.NewRecorder(), r)
	require.ErrorContains(t, err, "internal error")
}
