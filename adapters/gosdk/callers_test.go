package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/adapters/gosdk"
	identity "github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/internal/issuertest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// protect serves a world with a resource server, a policy and an audit.
func protect(t *testing.T, version string) (*world, *adapttest.Site) {
	w, issuer := newWorld(t), issuertest.New(t)
	sdk.AddTool(w.server, &sdk.Tool{Name: "who"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		p, token := gosdk.PrincipalOf(ctx), req.Extra.TokenInfo
		text := fmt.Sprintf("%s %s, without credentials", token.UserID, p.Client)
		if req.Extra.Header.Get("Authorization") != "" || p.Subject != token.UserID {
			text = "something is wrong"
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	resource, err := adapttest.NewResource(issuer.URL)
	require.NoError(t, err)
	records := w.Protect(w.adapter, resource)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return w, &adapttest.Site{
		Rig: w.Rig, URL: w.serveHTTP(version) + "/mcp", Version: mcp.Version(version), Records: records, Token: issuer.Token, Client: client,
	}
}

// A caller without a good token is challenged. Handlers know the principal of the others, and not their
// credentials.
func TestCallersAreAuthenticated(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.FindsCallers()
	})
}

// Nobody but its principal can use a session.
func TestSessionOfAnotherPrincipal(t *testing.T) {
	_, site := protect(t, legacy)
	site.BindsSessions()
}

// A caller without the scopes of a tool is challenged.
func TestMissingScopesAreChallenged(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.Challenges(`{"A":1,"B":2}`)
	})
}

// The names that a client has chosen, such as those of the fields of a form, are not taken for
// members of the message.
func TestFieldsOfFormsMayHaveAnyName(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.ChallengesAnswers()
	})
}

// Policies are asked about requests that the adapter does not read ahead, too.
func TestLargeRequestsAreAskedAbout(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.AsksLater()
	})
}

// A policy and a handler cannot be shown different arguments.
func TestAmbiguousArgumentsAreRefused(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.RefusesAmbiguous()
	})
}

// What is denied does not exist.
func TestDeniedItemsAreUnknown(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.Hides(true)
	})
}

// The SDK's own client works with a token, and is told of the scopes that it needs.
func TestClientWithAToken(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		w, site := protect(t, version)
		session := w.dial(newClient(), &sdk.StreamableClientTransport{
			Endpoint: site.URL, HTTPClient: &http.Client{Transport: withToken(site.Token(nil))}, DisableStandaloneSSE: true,
		}, version)
		result, err := call(t, session, "who", none{})
		require.NoError(t, err)
		require.Equal(t, "ann desk, without credentials", result.Content[0].(*sdk.TextContent).Text)
		_, err = call(t, session, "add", sum{1, 2})
		require.Error(t, err)
	})
}

// withToken sends a token with each request.
type withToken string

// RoundTrip implements [http.RoundTripper].
func (token withToken) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(req)
}

// A subscription that a policy denies is not recorded as a subscription.
func TestDeniedSubscriptionIsNone(t *testing.T) {
	w := newWorld(t)
	w.adapter.Authorize(identity.PolicyFunc(adapttest.Policy))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(modern), Version: modern, Client: http.DefaultClient}
	site.DeniesSubscriptions()
}

// The SDK ignores members that it does not know. They do not keep a policy from seeing the others, neither as a policy
// of the adapter nor as a middleware.
func TestIllTypedMembersHideNothing(t *testing.T) {
	policy := identity.PolicyFunc(adapttest.Policy)
	w := newWorld(t)
	w.adapter.Authorize(policy)
	for _, w := range []*world{w, newWorld(t, middleware.Authorize(nil, policy))} {
		site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(modern), Version: modern, Client: http.DefaultClient}
		for _, params := range []string{
			`"notifications":{"x":1,"resourceSubscriptions":["note://1"]}`,
			`"notifications":{"taskIds":1,"resourceSubscriptions":["note://1"]}`,
			`"notifications":{"resourceSubscriptions":["note://1"]},"x":{"y":[1]}`,
		} {
			require.Contains(t, site.Ask("", "", "subscriptions/listen", params).Body, `"code":-32602,"message":"there is no such resource"`, params)
		}
		answer := site.Ask("", "", "completion/complete", `"ref":{"title":5,"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":"b"}`)
		require.Contains(t, answer.Body, `there is no prompt \"greet\"`)
	}
}

// Streams that a client only listens to end when its token expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	w := newWorld(t)
	short := false
	w.adapter.Authenticate(identity.AuthenticatorFunc(func(context.Context, *identity.Caller) (*identity.Principal, error) {
		p := &identity.Principal{Subject: "ann", Expires: farAway}
		if short {
			p.Expires = time.Now().Add(time.Millisecond)
		}
		return p, nil
	}))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(legacy), Version: legacy, Client: http.DefaultClient}
	session := site.Open("")
	short = true
	require.Equal(t, http.StatusOK, site.Do(http.MethodGet, site.URL, "", session, "").Status) // reads to the end
	require.Equal(t, 1.0, w.Metric("vitrine_auth_streams_ended_total", adapttest.Labels{"stream": "get"}))
}

// On a byte stream the caller is authenticated once.
func TestStreamIsAuthenticated(t *testing.T) {
	w := newWorld(t)
	var p *identity.Principal
	w.adapter.Authenticate(identity.AuthenticatorFunc(func(_ context.Context, caller *identity.Caller) (*identity.Principal, error) {
		require.Equal(t, "memory", caller.Transport)
		if p == nil {
			return nil, identity.ErrNotRecognized
		}
		return p, nil
	}))
	log, records := w.NewAudit()
	w.adapter.Audit(log)
	here, _ := sdk.NewInMemoryTransports()
	_, err := w.server.Connect(t.Context(), w.adapter.Transport(here), nil)
	require.ErrorContains(t, err, "unauthenticated")

	p = &identity.Principal{Subject: "ann"}
	session := w.dialMemory(newClient(), legacy)
	_, err = call(t, session, "add", sum{1, 2})
	require.NoError(t, err)
	site := &adapttest.Site{Rig: w.Rig, Records: records}
	require.Equal(t, "ann", site.Record("tools/call", "add").Principal.Subject)
}

// Requests that come around the authenticator are refused.
func TestUnknownWaysAreRefused(t *testing.T) {
	w, _ := protect(t, legacy)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return w.server }, nil)
	server := httptest.NewServer(handler) // without the adapter
	defer server.Close()
	_, err := newClient().Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL}, nil)
	require.ErrorContains(t, err, "authentication is required")
	http.DefaultClient.CloseIdleConnections()
}

// A strict audit refuses a call for whose record there is no place.
func TestStrictAudit(t *testing.T) {
	w := newWorld(t)
	log, records := w.NewStrictAudit()
	w.adapter.Audit(log)
	session := wires()[0].connect(w)
	_, err := call(t, session, "add", sum{1, 2})
	require.NoError(t, err)
	site := &adapttest.Site{Rig: w.Rig, Records: records}
	site.Record("tools/call", "add")
	for log.Reserve() { // takes all places
	}
	_, err = call(t, session, "add", sum{1, 2})
	require.ErrorContains(t, err, "this cannot be had now")
	require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "audit", "by": "audit"}))
}
