package service_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// awaitRecord waits until the log, which is JSON, has a record.
func (r *running) awaitRecord(t *testing.T, msg string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.stderr.String(), `"msg":"`+msg+`"`) }, patience, time.Millisecond)
}

// The calls that a drain has cut are counted when nothing but the admin listener is left:
// it waits for who fetches that, whatever else it is asked, and also if the drain has
// failed.
func TestLingerShowsCallsThatTheDrainCancelled(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		srv, g := newGated(t, stubborn, server.WithLimits(server.Limits{CleanupGrace: 100 * time.Millisecond}))
		r := start(t, srv, "--drain-timeout=1ms", "--linger-timeout=1h", "--log-format=json")
		_, result := r.enter(t, g)
		const cut = `vitrine_requests_cancelled_total{cause="server_shutdown",method="tools/call",phase="running",tool="gated"} `
		_, body := r.get(t, "/metrics")
		require.Contains(t, body, cut+"0")

		r.stop()
		r.awaitRecord(t, "linger.begin")
		r.awaitRecord(t, "drain.end")
		assert.Error(t, r.call("echo", `{"text":""}`).err, "nothing listens for calls any more")
		r.notReady(t)
		for _, path := range []string{"/debug/requests", "/", "/livez"} {
			status, _ := r.get(t, path)
			require.Equal(t, http.StatusOK, status, path)
		}
		require.Empty(t, r.records(t, "linger.end"))
		select {
		case <-r.done:
			t.Fatal("it did not wait")
		default:
		}

		_, body = r.get(t, "/metrics")
		assert.Contains(t, body, cut+"1")
		err := r.wait(t)
		if stubborn {
			assert.ErrorIs(t, err, server.ErrAbandoned)
		} else {
			assert.NoError(t, err)
		}
		ended := r.records(t, "linger.end")
		require.Len(t, ended, 1)
		assert.Contains(t, ended[0], `"scraped":1,"missing":0`)
		close(g.open)
		<-result
	}
}
