package service_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
)

// eventuallyScrapes waits until a scrape has a line. Nothing but scrapes reaches the process meanwhile.
func (r *running) eventuallyScrapes(t *testing.T, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, metrics := r.get(t, "/metrics")
		return strings.Contains(metrics, "\n"+line+"\n")
	}, patience, 50*time.Millisecond, line)
}

// A scrape looks at each file with credentials, so the gauges are right although nobody calls.
func TestScrapesLookAtFilesWithCredentials(t *testing.T) {
	a := newAuthority(t)
	a.server()
	files := map[string]string{"tls": a.path("ca.crt"), "admin_token": adminTokenFile(t), "tokens": tokensFile(t, "ann's token", "ann")}
	good := map[string][]byte{}
	for kind, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		good[kind] = text
	}
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"), "--tls-client-ca="+files["tls"],
		"--admin-token-file="+files["admin_token"], "--auth-tokens-file="+files["tokens"])
	shows := func(stale int) {
		t.Helper()
		for kind := range files {
			r.eventuallyScrapes(t, fmt.Sprintf("vitrine_credentials_stale_files{kind=%q} %d", kind, stale))
		}
	}
	shows(0)
	for _, path := range files {
		require.NoError(t, os.WriteFile(path, []byte("a mistake"), 0o600))
	}
	shows(1)
	for kind, path := range files {
		require.NoError(t, os.WriteFile(path, good[kind], 0o600))
	}
	shows(0)
	for _, path := range files {
		require.NoError(t, os.Remove(path))
	}
	shows(1)
}

// fileOfTokens is an authenticator of a program. Whether the present content of its file is not in use is for the test to say.
type fileOfTokens struct{ stale atomic.Bool }

func (f *fileOfTokens) Stale() bool { return f.stale.Load() }

func (*fileOfTokens) Authenticate(context.Context, *auth.Caller) (*auth.Principal, error) {
	return nil, auth.ErrNotRecognized
}

// The program's own main may read a file of tokens, beside other authenticators.
func TestScrapesAskTheAuthenticatorOfTheProgram(t *testing.T) {
	first, second := &fileOfTokens{}, &fileOfTokens{}
	other := auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) { return nil, nil })
	for name, by := range map[string]auth.Authenticator{
		"a file": second, "two files, and callers without a token": auth.FirstOf(first, auth.FirstOf(second, other)),
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, server.New("testing", "1.2.3", server.WithAuthenticator(by)))
			for _, stale := range []bool{false, true, false} {
				second.stale.Store(stale)
				_, metrics := r.get(t, "/metrics")
				require.Equal(t, !stale, strings.Contains(metrics, `vitrine_credentials_stale_files{kind="tokens"} 0`))
				require.Equal(t, stale, strings.Contains(metrics, `vitrine_credentials_stale_files{kind="tokens"} 1`))
			}
		})
	}
	for name, srv := range map[string]*server.Server{
		"no authenticator": server.New("testing", "1.2.3"), "no file": server.New("testing", "1.2.3", server.WithAuthenticator(auth.FirstOf(other, other))),
	} {
		t.Run(name, func(t *testing.T) {
			_, metrics := start(t, srv).get(t, "/metrics")
			require.NotContains(t, metrics, "vitrine_credentials_stale_files")
			require.NotContains(t, metrics, "vitrine_tls_certificate_expiry_timestamp_seconds")
		})
	}
}

// brokenFile is an authenticator that panics when it is asked for the state of its file.
type brokenFile struct{ fileOfTokens }

func (*brokenFile) Stale() bool { panic("no file") }

func TestScrapesSurviveAPanicOfTheAuthenticator(t *testing.T) {
	r := start(t, server.New("testing", "1.2.3", server.WithAuthenticator(&brokenFile{})))
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_credentials_stale_files{kind="tokens"} 1`)
}

// The gauge has the end of the certificate in use, also after a renewal that has a mistake and after one that has none.
func TestScrapesTellWhenTheCertificateExpires(t *testing.T) {
	a := newAuthority(t)
	issue := func(validity time.Duration) (line string) {
		end := time.Now().Add(validity)
		a.serverUntil(end)
		return "vitrine_tls_certificate_expiry_timestamp_seconds " + strconv.FormatFloat(float64(end.Unix()), 'g', -1, 64)
	}
	first := issue(24 * time.Hour)
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"))
	r.eventuallyScrapes(t, first)
	_, metrics := r.get(t, "/metrics")
	require.Equal(t, 1, strings.Count(metrics, "\nvitrine_credentials_stale_files{"), "files that are not configured are not there")
	key, err := os.ReadFile(a.path("server.key"))
	require.NoError(t, err)
	second := issue(48 * time.Hour)
	renewed, err := os.ReadFile(a.path("server.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.path("server.key"), key, 0o600))
	r.eventuallyScrapes(t, `vitrine_credentials_stale_files{kind="tls"} 1`)
	r.eventuallyScrapes(t, first)
	require.NoError(t, os.WriteFile(a.path("server.key"), renewed, 0o600))
	r.eventuallyScrapes(t, second)
	r.eventuallyScrapes(t, `vitrine_credentials_stale_files{kind="tls"} 0`)
}
