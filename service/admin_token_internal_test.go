package service

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/reload"
)

const (
	goodToken  = "0123456789abcdef-good"
	otherToken = "fedcba9876543210-other"
)

func writeToken(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// askAdmin sends a request through the check of the admin listener, as if it had come to a local
// address.
func askAdmin(p *process, local, path string, headers ...string) *httptest.ResponseRecorder {
	handler := p.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain(w, http.StatusOK, "credential: "+r.Header.Get("Authorization"))
	}))
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(local)}))
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func basic(user, password string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

func newTokenProcess(t *testing.T, text string) (p *process, path string) {
	t.Helper()
	p = &process{options: newOptions(nil), access: &access{}}
	if text == "" {
		return p, ""
	}
	path = filepath.Join(t.TempDir(), "token")
	writeToken(t, path, text)
	var err error
	p.access.adminToken, err = newAdminToken(path)
	require.NoError(t, err)
	return p, path
}

// Without a token file only health checks and metrics are open to other machines.
func TestAdminPagesAreForThisMachineWithoutAToken(t *testing.T) {
	p, _ := newTokenProcess(t, "")
	for _, path := range []string{"/", "/debug/requests", "/debug/pprof/profile", "/debug/flight", "/console/console.js", "/own", "/metrics/", "/livez/x"} {
		require.Equal(t, http.StatusOK, askAdmin(p, "127.0.0.1", path).Code, path)
		require.Equal(t, http.StatusOK, askAdmin(p, "::1", path).Code, path)
		w := askAdmin(p, "10.1.2.3", path, "Bearer "+goodToken)
		require.Equal(t, http.StatusForbidden, w.Code, path)
		require.Contains(t, w.Body.String(), "--admin-token-file or VITRINE_ADMIN_TOKEN_FILE")
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		require.Equal(t, http.StatusOK, askAdmin(p, "10.1.2.3", path).Code, path)
	}
}

func TestAdminPagesNeedTheToken(t *testing.T) {
	p, _ := newTokenProcess(t, "\n "+goodToken+" \n"+otherToken+"\n")
	for _, local := range []string{"127.0.0.1", "10.1.2.3"} {
		for name, tt := range map[string]struct {
			headers []string
			status  int
		}{
			"bearer":           {[]string{"Bearer " + goodToken}, 200},
			"bearer, lower":    {[]string{"bearer " + goodToken}, 200},
			"bearer, upper":    {[]string{"BEARER  " + goodToken}, 200},
			"no space":         {[]string{"Bearer" + goodToken}, 401},
			"second token":     {[]string{"Bearer " + otherToken}, 200},
			"password":         {[]string{basic("ops", goodToken)}, 200},
			"nothing":          {nil, 401},
			"wrong":            {[]string{"Bearer " + goodToken + "x"}, 401},
			"start":            {[]string{"Bearer " + goodToken[:16]}, 401},
			"empty":            {[]string{"Bearer "}, 401},
			"wrong password":   {[]string{basic(goodToken, "x")}, 401},
			"another scheme":   {[]string{"Digest " + goodToken}, 401},
			"two headers":      {[]string{"Bearer x", "Bearer " + goodToken}, 401},
			"two good headers": {[]string{"Bearer " + goodToken, "Bearer " + goodToken}, 401},
		} {
			w := askAdmin(p, local, "/debug/requests", tt.headers...)
			require.Equal(t, tt.status, w.Code, name)
			if tt.status == 200 {
				require.Equal(t, "credential: \n", w.Body.String(), "no page sees the token")
				continue
			}
			require.Equal(t, []string{`Basic realm="admin", charset="UTF-8"`, `Bearer realm="admin"`}, w.Header()["Www-Authenticate"])
			require.Contains(t, w.Body.String(), "--admin-token-file")
			require.NotContains(t, w.Body.String(), goodToken[:8])
		}
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			require.Equal(t, http.StatusOK, askAdmin(p, local, path).Code, path)
		}
	}
}

// A new token is good after a second at most, without a restart. If the file becomes unreadable, the
// last tokens stay good.
func TestAdminTokenIsReadAgain(t *testing.T) {
	var log syncLog
	defer func(before *slog.Logger) { slog.SetDefault(before) }(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	p, path := newTokenProcess(t, goodToken)
	now := time.Now()
	p.access.adminToken.files.Now = func() time.Time { return now }
	status := func(token string) int { return askAdmin(p, "10.1.2.3", "/", "Bearer "+token).Code }

	writeToken(t, path, otherToken)
	require.Equal(t, 200, status(goodToken), "the file is looked at once a second")
	now = now.Add(reload.Interval)
	require.Equal(t, 200, status(otherToken))
	require.Equal(t, 401, status(goodToken))

	for _, bad := range []string{"", "short", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		writeToken(t, path, bad)
		now = now.Add(reload.Interval)
		require.Equal(t, 200, status(otherToken), bad)
	}
	require.NoError(t, os.Remove(path))
	now = now.Add(reload.Interval)
	require.Equal(t, 200, status(otherToken))
	require.Equal(t, 1, log.count("msg=admin.token"), "one line until the file is good again")
	writeToken(t, path, goodToken)
	now = now.Add(reload.Interval)
	require.Equal(t, 401, status(otherToken))
	require.NotContains(t, log.String(), goodToken[:8])
}

func TestWeakAdminTokenIsRefusedAtStart(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "there is no token",
		" \n\n":               "there is no token",
		"short":               "the token on line 1 can be guessed",
		goodToken + "\nshort": "the token on line 2 can be guessed",
		"0000000000000000000": "the token on line 1 can be guessed",
		goodToken + strings.Repeat("\n", reload.MaxFile) + otherToken: "the file has more than 262144 bytes",
	} {
		path := filepath.Join(t.TempDir(), "token")
		writeToken(t, path, text)
		_, err := newAdminToken(path)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "0123")
	}
	_, err := newAdminToken(filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, err, "service: admin token: open ")
	none, err := newAdminToken("")
	require.NoError(t, err)
	require.Nil(t, none)
}

// A syncLog is a log that tests read.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *syncLog) count(text string) int { return strings.Count(l.String(), text) }
