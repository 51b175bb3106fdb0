package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// unavailable returns how many tokens count as not judged because the issuer could not be asked.
func unavailable(rs *oauth.ResourceServer) (n uint64) {
	for _, v := range rs.Stats().Verifications {
		n += v.Unavailable
	}
	return n
}

// hangUp authenticates a caller that hangs up after a time.
func hangUp(t *testing.T, rs *oauth.ResourceServer, caller *auth.Caller, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(after, cancel)
	_, err := rs.Authenticate(ctx, caller)
	require.ErrorIs(t, err, context.Canceled)
}

// A caller that hangs up while the issuer is asked is no outage of the issuer, which an operator is paged for.
func TestCallersThatHangUpAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newSigner("k1", "ES256")
		issuer := newIssuer(key)
		issuer.answer(func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Second)
			return false
		})
		rs := newServer(t, issuer, introspecting)
		hangUp(t, rs, bearer(key.sign(goodClaims(), nil)), time.Millisecond)
		time.Sleep(3 * time.Second)
		issuer.know("opaque", nil)
		hangUp(t, rs, bearer("opaque"), time.Millisecond)
		time.Sleep(3 * time.Second)
		require.Zero(t, unavailable(rs))
		admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
	})
}

// While the issuer does not answer, callers that hang up before the time-out count, too. Else an issuer that hangs would not be
// noticed if all clients are impatient.
func TestImpatientCallersOfAnIssuerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newSigner("k1", "ES256")
		issuer := newIssuer(key)
		rs := newServer(t, issuer, introspecting)
		require.NoError(t, rs.Check(t.Context()))
		issuer.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return false
		})
		hangUp(t, rs, bearer("opaque0"), time.Second)
		require.Zero(t, unavailable(rs), "perhaps it is only slow")
		time.Sleep(5 * time.Second)
		for n := range 3 {
			hangUp(t, rs, bearer(fmt.Sprint("opaque", n)), time.Second)
			require.EqualValues(t, n+1, unavailable(rs))
		}
	})
}

// A deadline that the program has set for its callers is no caller that hangs up.
func TestDeadlinesOfCallersCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, _ := newSlowServer(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := rs.Authenticate(ctx, bearer("opaque"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, unavailable(rs))
	})
}

// The log says once for each outage why the issuer cannot be asked about tokens, and when it can be again. An issuer that
// answers now and then has one outage.
func TestFailedIntrospectionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		issuer := newIssuer()
		rs := newServer(t, issuer, func(c *oauth.Config) {
			introspecting(c)
			c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		})
		require.NoError(t, rs.Check(t.Context()))
		records := func() (all []map[string]any) {
			for dec := json.NewDecoder(&log); dec.More(); {
				var r map[string]any
				require.NoError(t, dec.Decode(&r))
				delete(r, "time")
				all = append(all, r)
			}
			return all
		}
		records()
		issuer.know("good", nil)
		for n := range 5 {
			issuer.setDown(true)
			require.Equal(t, "issuer_unavailable", refusedFor(t, rs, bearer(fmt.Sprint("opaque", n))).Reason)
			issuer.setDown(false)
			issuer.know(fmt.Sprint("good", n), nil)
			admitted(t, rs, bearer(fmt.Sprint("good", n)))
		}
		require.Equal(t, []map[string]any{{
			"level": "WARN", "msg": "oauth.issuer_failed", "issuer": issuerName, "cause": "introspection", "keys": 0.0,
			"error": "introspection: https://login.example.com/introspect: connection refused",
		}}, records())
		time.Sleep(5 * time.Second)
		refusedFor(t, rs, bearer("bad"))
		require.Equal(t, []map[string]any{{
			"level": "INFO", "msg": "oauth.issuer_recovered", "issuer": issuerName, "cause": "introspection", "failed": 5.0,
		}}, records())
		refusedFor(t, rs, bearer("worse"))
		require.Empty(t, records())
	})
}
