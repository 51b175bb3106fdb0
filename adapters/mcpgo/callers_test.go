package mcpgo_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/adapters/mcpgo"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/internal/issuertest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
)

// protect serves a world with a resource server, a policy and an audit.
func protect(t *testing.T, version string) (*world, *adapttest.Site) {
	w, issuer := newWorld(t), issuertest.New(t)
	w.server.AddTool(mcp.NewTool("who"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p, text := mcpgo.PrincipalOf(ctx), "something is wrong"
		if req.Header.Get("Authorization") == "" {
			text = fmt.Sprintf("%s %s, without credentials", p.Subject, p.Client)
		}
		return mcp.NewToolResultText(text), nil
	})
	resource, err := adapttest.NewResource(issuer.URL)
	require.NoError(t, err)
	records := w.Protect(w.adapter, resource)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return w, &adapttest.Site{
		Rig: w.Rig, URL: w.serveHTTP() + "/mcp", Version: vitrine.Version(version), Records: records, Token: issuer.Token, Client: client,
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
		site.Challenges(`{"a":1,"b":2}`)
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

// What is denied is in no list. Tools and prompts are answered as unknown ones.
func TestDeniedItemsAreUnknown(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		_, site := protect(t, version)
		site.Hides(false)
	})
}

// mcp-go's own client works with a token, and is told of the scopes that it needs.
func TestClientWithAToken(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		w, site := protect(t, version)
		wire, err := transport.NewStreamableHTTP(site.URL, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + site.Token(nil)}))
		require.NoError(t, err)
		c := w.dial(wire, version)
		result, err := call(t, c, "who", nil)
		require.NoError(t, err)
		require.Equal(t, "ann desk, without credentials", result.Content[0].(mcp.TextContent).Text)
		_, err = call(t, c, "add", numbers{1, 2})
		require.Error(t, err)
	})
}

// A subscription that a policy denies is not recorded as a subscription.
func TestDeniedSubscriptionIsNone(t *testing.T) {
	w := newWorld(t)
	w.adapter.Authorize(auth.PolicyFunc(adapttest.Policy))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(), Version: modern, Client: http.DefaultClient}
	site.DeniesSubscriptions()
}

// mcp-go ignores members that it does not know, and the URI of the reference to a prompt. They do not keep a policy from
// seeing the others.
func TestIllTypedMembersHideNothing(t *testing.T) {
	w := newWorldWith(t, []server.ServerOption{server.WithResourceCapabilities(true, true)})
	w.adapter.Authorize(auth.PolicyFunc(adapttest.Policy))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(), Version: modern, Client: http.DefaultClient}
	for _, params := range []string{
		`"notifications":{"x":1,"resourceSubscriptions":["note://1"]}`,
		`"notifications":{"taskIds":1,"resourceSubscriptions":["note://1"]}`,
	} {
		require.Contains(t, site.Ask("", "", "subscriptions/listen", params).Body, "there is no such resource", params)
	}
	for ref, want := range map[string]string{
		`{"uri":5,"type":"ref/prompt","name":"greet"}`:    `there is no prompt \"greet\"`,
		`{"type":"ref/prompt","name":"greet","title":[]}`: `there is no prompt \"greet\"`,
		`{"type":"ref/prompt","name":["greet"]}`:          "params.ref.name must be a string",
	} {
		answer := site.Ask("", "", "completion/complete", `"ref":`+ref+`,"argument":{"name":"a","value":"b"}`)
		require.Contains(t, answer.Body, want, ref)
	}
}

// mcp-go ignores the _meta of a subscription. It does not keep a policy from seeing the URI.
func TestIllTypedMetaDoesNotHideTheURI(t *testing.T) {
	w := newWorldWith(t, []server.ServerOption{server.WithResourceCapabilities(true, true)})
	w.adapter.Authorize(auth.PolicyFunc(adapttest.Policy))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(), Version: legacy, Client: http.DefaultClient}
	session := site.Open("")
	for _, params := range []string{
		`"uri":"note://1"`, `"_meta":5,"uri":"note://1"`, `"uri":"note://1","_meta":[]`, `"uri":"note://1","_meta":"text"`,
	} {
		require.Contains(t, site.Ask("", session, "resources/subscribe", params).Body, `there is no resource \"note://1\"`, params)
	}
	require.Contains(t, site.Ask("", session, "resources/subscribe", `"_meta":5,"uri":"note://2"`).Body, `"result":{}`)
}

// Streams that a client only listens to end when its token expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	w := newWorld(t)
	short := false
	w.adapter.Authenticate(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
		p := &auth.Principal{Subject: "ann"}
		if short {
			p.Expires = time.Now().Add(time.Millisecond)
		}
		return p, nil
	}))
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(), Version: legacy, Client: http.DefaultClient}
	session := site.Open("")
	short = true
	require.Equal(t, http.StatusOK, site.Do(http.MethodGet, site.URL, "", session, "").Status) // reads to the end
	require.Equal(t, 1.0, w.Metric("vitrine_auth_streams_ended_total", adapttest.Labels{"stream": "get"}))
}

// On stdio the caller is authenticated once, and policies are asked about all requests.
func TestStreamIsAuthenticated(t *testing.T) {
	adapttest.Eras(t, func(t *testing.T, version string) {
		w := newWorld(t)
		var p *auth.Principal
		w.adapter.Authenticate(auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
			require.Equal(t, "stdio", caller.Transport)
			if p == nil {
				return nil, auth.ErrNotRecognized
			}
			return p, nil
		}))
		w.adapter.Authorize(auth.PolicyFunc(adapttest.Policy))
		log, records := w.NewAudit()
		w.adapter.Audit(log)
		err := w.adapter.Listen(t.Context(), server.NewStdioServer(w.server), strings.NewReader(""), io.Discard)
		require.ErrorContains(t, err, "unauthenticated")

		p = &auth.Principal{Subject: "ann", Scopes: []string{"demo:write"}}
		site := &adapttest.Site{Rig: w.Rig, Records: records}
		c, _ := w.pipe(version)
		_, err = call(t, c, "add", numbers{1, 2})
		require.NoError(t, err)
		require.Equal(t, "ann", site.Record("tools/call", "add").Principal.Subject)
		tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
		require.NoError(t, err)
		for _, tool := range tools.Tools {
			require.NotEqual(t, "fail", tool.Name)
		}
		_, err = call(t, c, "fail", nil)
		require.ErrorContains(t, err, "tool 'fail' not found")
		_, err = read(t, c, "note://1")
		require.ErrorContains(t, err, "there is no resource")
		_, err = c.Complete(t.Context(), mcp.CompleteRequest{Params: mcp.CompleteParams{
			Ref: mcp.PromptReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteArgument{Name: "a", Value: "b"},
		}})
		require.ErrorContains(t, err, `there is no prompt "greet"`)
		require.Equal(t, "hidden", site.Record("completion/complete", "greet").Rule)
	})
}

// Requests that come around the authenticator are refused.
func TestUnknownWaysAreRefused(t *testing.T) {
	w, _ := protect(t, legacy)
	web := httptest.NewServer(server.NewStreamableHTTPServer(w.server)) // without the adapter
	defer web.Close()
	site := &adapttest.Site{Rig: w.Rig, URL: web.URL, Version: legacy, Client: http.DefaultClient}
	require.Contains(t, site.Ask("", "mcp-session-00000000-0000-4000-8000-000000000000", "tools/list", "").Body, "authentication is required")
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "unauthenticated", "by": "authenticator"}))
}

// A strict audit refuses a call for whose record there is no place.
func TestStrictAudit(t *testing.T) {
	w := newWorld(t)
	log, records := w.NewStrictAudit()
	w.adapter.Audit(log)
	session := wires()[0].connect(w)
	_, err := call(t, session, "add", numbers{1, 2})
	require.NoError(t, err)
	site := &adapttest.Site{Rig: w.Rig, Records: records}
	site.Record("tools/call", "add")
	for log.Reserve() { // takes all places
	}
	_, err = call(t, session, "add", numbers{1, 2})
	require.ErrorContains(t, err, "this cannot be had now")
	require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "audit", "by": "audit"}))
}
