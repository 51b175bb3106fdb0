package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// decisions is a service that decides as the policy in the comment of the program does.
func decisions(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Input struct {
			Name      string
			Listed    bool
			Arguments struct{ Amount int }
		}
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	in := asked.Input
	allow := in.Listed || in.Name == "pay" && in.Arguments.Amount <= 1000
	_ = json.NewEncoder(w).Encode(map[string]any{"result": map[string]any{"allow": allow, "reason": "amounts"}}) // the client has gone
}

func TestServiceDecides(t *testing.T) {
	opa := httptest.NewServer(http.HandlerFunc(decisions))
	defer opa.Close()
	client := servertest.Connect(t, newServer(opa.URL))
	tools, err := client.ListTools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 1)
	result, err := client.CallTool(t.Context(), "pay", payIn{Amount: 1000, To: "ann"})
	require.NoError(t, err)
	require.Equal(t, "paid ann", result.Text())
	_, err = client.CallTool(t.Context(), "pay", payIn{Amount: 1001, To: "ann"})
	require.ErrorContains(t, err, `there is no tool "pay"`)
}

// silence answers nothing until the client goes. The server learns of that once it has read the body.
func silence(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// Whatever goes wrong denies, within the time-out.
func TestNoAnswerDenies(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 500) }, "500 Internal Server Error"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "307"},
		"no JSON":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("yes")) }, "no decision"},
		"no policy":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, "is there a policy"},
		"another type": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"result": true}`)) }, "no decision"},
		"a huge answer": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"x": "` + strings.Repeat("x", maxAnswer)))
		}, "no decision"},
		"no answer": {silence, "Client.Timeout"},
		"a cut off body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"result"`))
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			opa := httptest.NewServer(c.answer)
			defer opa.Close()
			d := newDecisionPoint(opa.URL).Decide(t.Context(), nil, &auth.Operation{Method: "tools/call", Name: "pay"})
			require.Equal(t, auth.Deny, d.Effect)
			require.ErrorContains(t, d.Err, c.err)
			require.Equal(t, rule, d.Rule)
		})
	}
	opa := httptest.NewServer(nil)
	opa.Close()
	d := newDecisionPoint(opa.URL).Decide(t.Context(), nil, &auth.Operation{})
	require.Error(t, d.Err, "the service is down")
	require.False(t, d.Passes())
}
