package service_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireOperator checks whether the admin listener lets a caller open a page that needs a credential.
func (r *running) requireOperator(t *testing.T, want bool, headers ...string) {
	t.Helper()
	status := http.StatusUnauthorized
	if want {
		status = http.StatusOK
	}
	resp, body := r.do(t, http.MethodGet, r.Admin+"/debug/requests", "", headers...)
	require.Equal(t, status, resp.StatusCode, body)
}

// With several issuers an operator is a subject of one of them: another issuer may give the same name to somebody else.
func TestOperatorsOfOneIssuerAreNotThoseOfAnother(t *testing.T) {
	corp, partner := newIssuer(t), newIssuer(t)
	settings := []string{
		"--oauth-issuer=" + corp.URL + "," + partner.URL, "--oauth-resource=" + resource, "--admin-token-file=" + adminTokenFile(t),
		"--auth-tokens-file=" + tokensFile(t, "bob's token", "bob"),
	}
	_, err := check(t, append(settings, "--admin-subjects="+corp.URL+"#ann,ann")...)
	require.ErrorContains(t, err, `"ann" does not say whose subject it is: --admin-subjects needs source#subject with one of the sources tokens, `+
		corp.URL+", "+partner.URL)

	r := start(t, whoServer(), append(settings, "--admin-subjects="+corp.URL+"#ann,tokens#bob")...)
	r.requireOperator(t, true, "Authorization", "Bearer "+corp.token("ann", "a", resource))
	r.requireOperator(t, false, "Authorization", "Bearer "+partner.token("ann", "a", resource))
	r.requireOperator(t, false, "Authorization", "Bearer "+corp.token("bob", "a", resource))
	r.requireOperator(t, true, "Authorization", "Bearer bob's token")
}

// With one issuer the subject is enough, and may be called with its issuer.
func TestOperatorsOfTheOnlyIssuer(t *testing.T) {
	i := newIssuer(t)
	r := start(t, whoServer(), append(i.settings(), "--admin-subjects=ann,"+i.URL+"#bob", "--admin-token-file="+adminTokenFile(t))...)
	for subject, operates := range map[string]bool{"ann": true, "bob": true, "eve": false} {
		r.requireOperator(t, operates, "Authorization", "Bearer "+i.token(subject, "a", resource))
	}
}

// No proxy is in front of the admin listener, so that every client which can connect to it can set any header.
func TestTheHeaderOfAProxyMakesNoOperator(t *testing.T) {
	proxy := []string{"--trusted-proxies=127.0.0.1", "--auth-proxy-header=X-Forwarded-User", "--admin-token-file=" + adminTokenFile(t)}
	r := start(t, whoServer(), append(proxy, "--admin-subjects=ann", "--auth-tokens-file="+tokensFile(t, "ann's token", "ann"))...)
	r.requireOperator(t, false, "X-Forwarded-User", "ann")
	r.requireOperator(t, true, "Authorization", "Bearer ann's token")

	_, err := check(t, append(proxy, "--admin-subjects=ann")...)
	require.ErrorContains(t, err, "the header of a proxy (--auth-proxy-header) does not count on the admin listener")
}
