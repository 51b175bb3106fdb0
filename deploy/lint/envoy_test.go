package lint

import (
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	jwt "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	session "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	envelope "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/envelope/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// readEnvoy decodes Envoy's configuration into Envoy's types. Unknown fields and broken rules are
// errors, also in the extensions. The parser is not that of Envoy, see checkPlain.
func readEnvoy(t *testing.T) *bootstrap.Bootstrap {
	t.Helper()
	text, err := os.ReadFile(repository + "/deploy/envoy/envoy.yaml")
	require.NoError(t, err)
	checkPlain(t, text)
	json, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err)
	config := new(bootstrap.Bootstrap)
	require.NoError(t, protojson.Unmarshal(json, config))
	require.NoError(t, config.ValidateAll())
	extensions := 0
	require.NoError(t, protorange.Range(config.ProtoReflect(), func(p protopath.Values) error {
		if m, is := p.Index(-1).Value.Interface().(protoreflect.Message); is {
			if a, is := m.Interface().(*anypb.Any); is {
				inner, err := a.UnmarshalNew()
				if err != nil {
					return err
				}
				extensions++
				return inner.(interface{ ValidateAll() error }).ValidateAll()
			}
		}
		return nil
	}))
	require.Greater(t, extensions, 4)
	return config
}

// checkPlain fails for merge keys, which the parser in this test supports and Envoy's does not.
// Envoy would take "<<" for the name of a field, and not start.
func checkPlain(t *testing.T, text []byte) {
	t.Helper()
	var document yamlv3.Node
	require.NoError(t, yamlv3.Unmarshal(text, &document))
	mappings := 0
	var walk func(n *yamlv3.Node)
	walk = func(n *yamlv3.Node) { // an alias has no content: its anchor has been seen
		if n.Kind == yamlv3.MappingNode {
			mappings++
			for i := 0; i < len(n.Content); i += 2 {
				require.NotEqual(t, "<<", n.Content[i].Value, "line %d: Envoy merges no keys", n.Content[i].Line)
			}
		}
		for _, inner := range n.Content {
			walk(inner)
		}
	}
	walk(&document)
	require.Greater(t, mappings, 50)
}

// extension decodes an extension of a known type.
func extension[M proto.Message](t *testing.T, a *anypb.Any, into M) M {
	t.Helper()
	require.NoError(t, a.UnmarshalTo(into))
	return into
}

// The configuration fits the server and its defaults.
func TestEnvoyFitsTheServer(t *testing.T) {
	config := readEnvoy(t)
	keepAlive := server.New("envoy", "1").Limits().KeepAlive
	idle := service.DefaultConfig().IdleTimeout

	listener := config.GetStaticResources().GetListeners()[0]
	proxy := extension(t, listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &manager.HttpConnectionManager{})
	require.GreaterOrEqual(t, proxy.GetStreamIdleTimeout().AsDuration(), 3*keepAlive, "a quiet stream is cut off")
	require.Zero(t, proxy.GetCommonHttpProtocolOptions().GetMaxStreamDuration(), "a long call is cut off")
	sessions := extension(t, proxy.GetHttpFilters()[0].GetTypedConfig(), &session.StatefulSession{})
	require.False(t, sessions.GetStrict(), "a session whose replica is away gets a 404 from another one")
	state := extension(t, sessions.GetSessionState().GetTypedConfig(), &envelope.EnvelopeSessionState{})
	require.Equal(t, "Mcp-Session-Id", state.GetHeader().GetName())
	require.Len(t, proxy.GetHttpFilters(), 2, "no filter that buffers")

	clusters := map[string]*cluster.Cluster{}
	for _, c := range config.GetStaticResources().GetClusters() {
		clusters[c.GetName()] = c
		require.Equal(t, c.GetName(), c.GetLoadAssignment().GetClusterName())
		options := extension(t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], &upstream.HttpProtocolOptions{})
		require.Less(t, options.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration(), idle, "the server must not be the first to close")
		check := c.GetHealthChecks()[0]
		require.Equal(t, "/readyz", check.GetHttpHealthCheck().GetPath())
		require.LessOrEqual(t, check.GetInterval().AsDuration()+check.GetTimeout().AsDuration(), 2*time.Second, "README.md says so")
		limits := server.New("envoy", "1").Limits()
		require.Greater(t, int(c.GetCircuitBreakers().GetThresholds()[0].GetMaxRequests().GetValue()), limits.MaxSubscriptions+limits.MaxInFlightTotal)
		require.Nil(t, c.GetOutlierDetection())
	}
	routes := proxy.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()
	for _, c := range []struct {
		about   string
		headers http.Header
		cluster string
		again   []uint32 // statuses after which another replica gets the request
	}{
		{"the slow tool", http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"search_text"}}, "mcp_search", []uint32{503}},
		{"another tool", http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}, "mcp", []uint32{503}},
		{"a legacy session", http.Header{"Mcp-Session-Id": {"x"}}, "mcp", []uint32{503}},
		{"initialize", nil, "mcp", []uint32{503, 429}},
		{"a subscription", http.Header{"Mcp-Method": {"subscriptions/listen"}}, "mcp", []uint32{503, 429}},
	} {
		at := slices.IndexFunc(routes, func(r *route.Route) bool { return matches(t, r.GetMatch(), c.headers) })
		require.GreaterOrEqual(t, at, 0, c.about)
		require.Equal(t, c.cluster, routes[at].GetRoute().GetCluster(), c.about)
		require.Equal(t, c.again, routes[at].GetRoute().GetRetryPolicy().GetRetriableStatusCodes(), c.about)
	}
	for _, r := range routes {
		action := r.GetRoute()
		require.Contains(t, clusters, action.GetCluster())
		require.NotNil(t, action.GetTimeout())
		require.Zero(t, action.GetTimeout().AsDuration(), "the default cuts a call after 15 seconds")
		checkRetries(t, action.GetRetryPolicy())
	}
}

// matches reports whether a route takes a request with these headers.
func matches(t *testing.T, m *route.RouteMatch, headers http.Header) bool {
	t.Helper()
	for _, h := range m.GetHeaders() {
		switch is := h.GetHeaderMatchSpecifier().(type) {
		case *route.HeaderMatcher_StringMatch:
			if headers.Get(h.GetName()) != is.StringMatch.GetExact() {
				return false
			}
		case *route.HeaderMatcher_PresentMatch:
			if (headers.Get(h.GetName()) != "") != is.PresentMatch {
				return false
			}
		default:
			require.Fail(t, "the test does not know how to match", "%v", h)
		}
	}
	return true
}

// The access log names no session, whose id is a secret of its client.
func TestEnvoyLogNamesNoSession(t *testing.T) {
	listener := readEnvoy(t).GetStaticResources().GetListeners()[0]
	proxy := extension(t, listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &manager.HttpConnectionManager{})
	require.Len(t, proxy.GetAccessLog(), 1)
	log := extension(t, proxy.GetAccessLog()[0].GetTypedConfig(), &accesslog.StdoutAccessLog{})
	fields := log.GetLogFormat().GetJsonFormat().GetFields()
	require.Contains(t, fields, "method")
	for name, value := range fields {
		require.NotRegexp(t, `(?i)session|%(REQ|RESP)_ALL|HEADERS`, value.GetStringValue(), name)
	}
}

// No client can say who it is: Envoy removes the headers in which a gateway would say so, in both ways.
func TestEnvoyLetsNoClientSayWhoItIs(t *testing.T) {
	listener := readEnvoy(t).GetStaticResources().GetListeners()[0]
	proxy := extension(t, listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &manager.HttpConnectionManager{})
	removed := proxy.GetRouteConfig().GetRequestHeadersToRemove()
	require.Subset(t, removed, []string{"forwarded", "x-forwarded-user", "x-forwarded-tenant", "x-forwarded-scopes"})

	text, err := os.ReadFile(repository + "/deploy/envoy/authenticate.yaml")
	require.NoError(t, err)
	json, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err)
	filter := new(manager.HttpFilter)
	require.NoError(t, protojson.Unmarshal(json, filter))
	tokens := extension(t, filter.GetTypedConfig(), &jwt.JwtAuthentication{})
	require.NoError(t, tokens.ValidateAll())
	provider := tokens.GetProviders()["issuer"]
	require.NotEmpty(t, provider.GetAudiences(), "a token of another resource would be good")
	require.False(t, provider.GetForward())
	for _, c := range provider.GetClaimToHeaders() {
		require.Contains(t, removed, c.GetHeaderName())
	}
	require.Equal(t, "/mcp", tokens.GetRules()[0].GetMatch().GetPath())
	require.Equal(t, "issuer", tokens.GetRules()[0].GetRequires().GetProviderName())
}

// checkRetries checks that no request is repeated that a replica may have begun.
func checkRetries(t *testing.T, p *route.RetryPolicy) {
	t.Helper()
	require.Equal(t, "connect-failure,refused-stream,retriable-status-codes", p.GetRetryOn())
	require.NotEmpty(t, p.GetRetryHostPredicate())
}
