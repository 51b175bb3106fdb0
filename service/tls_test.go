package service_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// whoServer returns a server whose tool who says who calls.
func whoServer() *server.Server {
	srv := server.New("testing", "1.2.3")
	server.AddTool(srv, server.Tool{Name: "who"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		p := call.Principal
		if p == nil {
			return "nobody", nil
		}
		return strings.Join(append([]string{p.Subject}, p.Scopes...), " "), nil
	})
	return srv
}

// speakTLS replaces the client of r by one with a configuration of TLS.
func (r *running) speakTLS(t *testing.T, config *tls.Config) {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport, Timeout: patience}
}

func TestBothListenersSpeakTLS(t *testing.T) {
	a := newAuthority(t)
	a.server()
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"))
	require.True(t, strings.HasPrefix(r.MCP, "https://"), r.MCP)

	plain := "http://" + strings.TrimPrefix(r.MCP, "https://")
	resp, err := r.client.Get(plain)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "the MCP listener takes nothing else")
	status, _ := r.get(t, "/livez")
	require.Equal(t, http.StatusOK, status, "probes of this machine need no TLS")

	r.speakTLS(t, a.trusting())
	require.Equal(t, "nobody", r.call("who", "{}").text())
	for _, url := range []string{r.MCP, strings.Replace(r.Admin, "http:", "https:", 1) + "/livez"} {
		resp, err := r.client.Get(url)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, 2, resp.ProtoMajor, url)
		require.GreaterOrEqual(t, resp.TLS.Version, uint16(tls.VersionTLS12))
	}
	old := a.trusting()
	old.MaxVersion = tls.VersionTLS11
	_, err = tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.MCP, "https://"), "/mcp"), old)
	require.Error(t, err)
}

// The certificate of new connections is the one in the files. A half-written pair changes nothing.
func TestANewCertificateNeedsNoRestart(t *testing.T) {
	a := newAuthority(t)
	a.server()
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"))
	addr := strings.TrimSuffix(strings.TrimPrefix(r.MCP, "https://"), "/mcp")
	serial := func() int64 {
		conn, err := tls.Dial("tcp", addr, a.trusting())
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	first := serial()
	good, err := os.ReadFile(a.path("server.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.path("server.key"), good[:len(good)/2], 0o600))
	require.Eventually(t, func() bool { return serial() == first && strings.Contains(r.stderr.String(), "tls.reload") }, patience, 50*time.Millisecond)
	a.server()
	require.Eventually(t, func() bool { return serial() == a.last && a.last != first }, patience, 50*time.Millisecond)
}

func TestClientCertificatesSayWhoCalls(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	a.server()
	ann := a.client("ann")
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"), "--tls-client-ca="+a.path("ca.crt"),
		"--auth-client-cert=uri", "--auth-client-cert-scopes=a,b", "--admin-subjects=spiffe://example.org/ann", "--admin-token-file="+adminTokenFile(t))
	r.speakTLS(t, ann)
	require.Equal(t, "spiffe://example.org/ann a b", r.call("who", "{}").text())
	admin := strings.Replace(r.Admin, "http:", "https:", 1)
	requireStatus := func(want int) {
		t.Helper()
		resp, err := r.client.Get(admin + "/debug/requests")
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, resp.StatusCode)
	}
	requireStatus(http.StatusOK)
	r.speakTLS(t, a.client("bob"))
	require.Equal(t, "spiffe://example.org/bob a b", r.call("who", "{}").text())
	requireStatus(http.StatusUnauthorized)
	r.speakTLS(t, a.trusting())
	require.Error(t, r.call("who", "{}").err, "a certificate is required")
	requireStatus(http.StatusUnauthorized)

	stranger := other.client("ann")
	stranger.RootCAs = a.trusting().RootCAs
	r.speakTLS(t, stranger)
	require.Error(t, r.call("who", "{}").err, "another authority issues nothing here")
}

func TestClientCertificatesCanBeOptional(t *testing.T) {
	a := newAuthority(t)
	a.server()
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"), "--tls-client-ca="+a.path("ca.crt"),
		"--tls-client-optional", "--auth-client-cert=uri", "--auth-tokens-file="+tokensFile(t, "bob's token", "bob"), "--auth-optional")
	r.speakTLS(t, a.client("ann"))
	require.Equal(t, "spiffe://example.org/ann", r.call("who", "{}").text())
	r.speakTLS(t, a.trusting())
	require.Equal(t, "nobody", r.call("who", "{}").text())
	require.Equal(t, "bob", r.call("who", "{}", bearer("bob's token")).text())
	require.Equal(t, http.StatusUnauthorized, r.call("who", "{}", bearer("eve's token")).status)
}

func TestRunWithBadCertificates(t *testing.T) {
	a := newAuthority(t)
	a.server()
	a.client("ann")
	cert, key := "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key")
	for want, args := range map[string][]string{
		"needs both --tls-cert and --tls-key": {cert},
		"TLS needs both":                      {"--tls-client-ca=" + a.path("ca.crt")},
		"no such file":                        {cert, "--tls-key=" + a.path("none")},
		"private key does not match":          {cert, "--tls-key=" + a.path("ann.key")},
		"there is no certificate in PEM":      {cert, key, "--tls-client-ca=" + a.path("ca.key")},
		"--tls-client-ca does not say":        {cert, key, "--auth-client-cert=uri"},
		"want uri, dns, email or cn":          {"--auth-client-cert=serial"},
		"no trusted proxy that could set it":  {"--auth-proxy-header=X-Forwarded-User"},
		"want the name of a header":           {"--auth-proxy-header=a b"},
		"tokens: open":                        {"--auth-tokens-file=" + a.path("none")},
		"nothing says who calls":              {"--admin-subjects=ann"},
	} {
		err := service.Run(t.Context(), whoServer(), quiet(args...)...)
		require.ErrorContains(t, err, want)
	}
}

// A connection that says nothing does not hold up the end of the process.
func TestSilentConnectionsEndWithTheAdminListener(t *testing.T) {
	a := newAuthority(t)
	a.server()
	r := start(t, whoServer(), "--tls-cert="+a.path("server.crt"), "--tls-key="+a.path("server.key"), "--read-header-timeout=1h")
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.Admin, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	status, _ := r.get(t, "/livez")
	require.Equal(t, http.StatusOK, status, "others do not wait for it")
	r.stop()
	require.NoError(t, r.wait(t))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestTokensSayWhoCalls(t *testing.T) {
	r := start(t, whoServer(), "--auth-tokens-file="+tokensFile(t, "ann's token", "ann scopes=a,b"))
	require.Equal(t, "ann a b", r.call("who", "{}", bearer("ann's token")).text())
	for _, change := range []func(*http.Request){bearer("eve's token"), func(*http.Request) {}} {
		got := r.call("who", "{}", change)
		require.Equal(t, http.StatusUnauthorized, got.status)
		require.Contains(t, got.header.Get("WWW-Authenticate"), "Bearer")
	}
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_refusals_total{by="tokens",reason="token_unknown"} 1`)
}

func TestAProxySaysWhoCalls(t *testing.T) {
	r := start(t, whoServer(), "--trusted-proxies=127.0.0.1", "--auth-proxy-header=X-Forwarded-User", "--auth-proxy-scopes-header=X-Scopes")
	got := r.call("who", "{}", func(req *http.Request) {
		req.Header.Set("X-Forwarded-User", "ann")
		req.Header.Set("X-Scopes", "a b")
	})
	require.Equal(t, "ann a b", got.text())
	require.Equal(t, http.StatusUnauthorized, r.call("who", "{}").status)
}

// A subject that a proxy names is another principal than the same subject in the file of tokens.
func TestSubjectsOfAProxyAreNotThoseOfTokens(t *testing.T) {
	srv := server.New("testing", "1.2.3")
	server.AddTool(srv, server.Tool{Name: "issuer"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		return fmt.Sprintf("%q", call.Principal.Issuer), nil
	})
	r := start(t, srv, "--trusted-proxies=127.0.0.1", "--auth-proxy-header=X-Forwarded-User", "--auth-tokens-file="+tokensFile(t, "ann's token", "ann"))
	require.Equal(t, `"proxy"`, r.call("issuer", "{}", func(req *http.Request) { req.Header.Set("X-Forwarded-User", "ann") }).text())
	require.Equal(t, `""`, r.call("issuer", "{}", bearer("ann's token")).text())
}

func bearer(token string) func(*http.Request) {
	return func(req *http.Request) { req.Header.Set("Authorization", "Bearer "+token) }
}

func tokensFile(t *testing.T, token, words string) string {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%x %s\n", sha256.Sum256([]byte(token)), words), 0o600))
	return path
}

func adminTokenFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "admin")
	require.NoError(t, os.WriteFile(path, []byte("a-token-of-an-operator\n"), 0o600))
	return path
}
