package streamable

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// net/http cancels the context of a request also when a write has failed. So what the stream knows of a write
// comes before the context, and what the context says before a write that has failed because the peer left.
func TestReasonOfAnExchangeWhoseContextIsCancelled(t *testing.T) {
	core := session.New(session.Config{})
	r := httptest.NewRequest("POST", "/", nil)
	end := func(ctx context.Context, failed mcp.DropReason) string {
		x := &exchange{Endpoint: New(core, Config{}), r: r.WithContext(ctx), began: time.Now()}
		return x.end(failed).Reason
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		failed        mcp.DropReason
		present, gone string
	}{
		{"", "", session.StreamPeerLeft},
		{mcp.DropWriteTimeout, session.StreamWriteTimeout, session.StreamWriteTimeout},
		{mcp.DropOverload, session.StreamOverload, session.StreamOverload},
		{mcp.DropBrokenPeer, session.StreamPeerLeft, session.StreamPeerLeft},
		{mcp.DropSessionGone, session.StreamSessionEnded, session.StreamPeerLeft},
	} {
		require.Equal(t, tt.present, end(t.Context(), tt.failed), tt.failed)
		require.Equal(t, tt.gone, end(cancelled, tt.failed), tt.failed)
	}
	require.NoError(t, core.Shutdown(t.Context()))
	require.Equal(t, session.StreamWriteTimeout, end(cancelled, mcp.DropWriteTimeout), "while the server drains")
	require.Equal(t, session.StreamShutdown, end(cancelled, mcp.DropBrokenPeer), "while the server drains")
}
