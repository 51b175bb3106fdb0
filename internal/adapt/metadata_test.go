package adapt

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A resource is an authenticator with metadata.
type resource struct{ path string }

func (resource) Authenticate(context.Context, *auth.Caller) (*auth.Principal, error) {
	return nil, auth.ErrNotRecognized
}

func (r resource) MetadataPaths() []string { return []string{r.path} }

func (r resource) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, r.path) })
}

// The metadata of a resource server are served as well if it is one of several authenticators.
func TestMetadataBehindFirstOf(t *testing.T) {
	other := auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) { return nil, auth.ErrNotRecognized })
	for _, by := range []auth.Authenticator{
		resource{"/one"}, auth.FirstOf(other, resource{"/one"}), auth.FirstOf(auth.FirstOf(resource{"/two"}, other), resource{"/one"}),
	} {
		got := httptest.NewRecorder()
		require.True(t, servesMetadata(by, got, httptest.NewRequest(http.MethodGet, "/one", nil)))
		require.Equal(t, "/one", got.Body.String())
		require.False(t, servesMetadata(by, got, httptest.NewRequest(http.MethodGet, "/three", nil)))
	}
	require.False(t, servesMetadata(other, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/one", nil)))
	require.False(t, servesMetadata(nil, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/one", nil)))
}
