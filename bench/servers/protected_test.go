package servers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const protectedCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

// callWith makes a call with an access token, or without one if it is "".
func callWith(t *testing.T, s Server, token, body string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": Echo,
	} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	s.Modern.ServeHTTP(rec, r)
	text, err := io.ReadAll(rec.Body)
	require.NoError(t, err)
	return rec.Code, string(text)
}

// A protected server serves calls with the token, again and again, and no others. A plain one serves all.
func TestProtectedServersAskForTheToken(t *testing.T) {
	token, err := Token()
	require.NoError(t, err)
	for _, kind := range Protected() {
		t.Run(kind.Name, func(t *testing.T) {
			s, err := kind.New(3)
			require.NoError(t, err)
			if s.Close != nil {
				defer func() { require.NoError(t, s.Close()) }()
			}
			require.Equal(t, IsProtected(kind), s.Close != nil || kind.Name == "gosdk-token")
			for range 3 {
				status, answer := callWith(t, s, token, protectedCall)
				require.Equal(t, http.StatusOK, status, answer)
				require.Contains(t, answer, `"text":"x"`)
			}
			for _, wrong := range []string{"", token[:len(token)-8] + "AAAAAAAA"} {
				status, answer := callWith(t, s, wrong, protectedCall)
				if IsProtected(kind) {
					require.Equal(t, http.StatusUnauthorized, status, answer)
				} else {
					require.Equal(t, http.StatusOK, status, answer)
				}
			}
		})
	}
}

// Both rules of the policy are asked: the one that denies reads an argument, and the one that allows
// the principal.
func TestRulesOfProtectedServers(t *testing.T) {
	token, err := Token()
	require.NoError(t, err)
	for level, denied := range map[int]bool{remembered: false, decided: true, audited: true} {
		s, err := newProtected(3, level)
		require.NoError(t, err)
		_, answer := callWith(t, s, token, strings.Replace(protectedCall, `"text":"x"`, `"text":"sudo x"`, 1))
		require.Equal(t, denied, strings.Contains(answer, `"error"`), answer)
		require.NoError(t, s.Close())
	}
}
