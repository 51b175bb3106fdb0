package check

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// protectedProfile is the profile with an authorization server, and the server that trusts it.
const protectedProfile = "protected"

// A realm is what Keycloak imports.
type realm struct {
	Realm        string
	ClientScopes []struct {
		Name            string
		ProtocolMappers []struct {
			ProtocolMapper string
			Config         map[string]string
		}
	}
	Clients []struct {
		ClientID                                  string
		Secret                                    string
		DefaultClientScopes, OptionalClientScopes []string
		DirectAccessGrantsEnabled, PublicClient   bool
		Attributes                                map[string]string
	}
}

func readRealm(t *testing.T) (r realm) {
	t.Helper()
	require.NoError(t, json.Unmarshal(readFile(t, composeDir+"/protected/realm.json"), &r))
	return r
}

// Keycloak, its realm and the server agree about issuer, audience, scopes and ports.
func TestComposeProfileAgreesWithTheRealm(t *testing.T) {
	project := composedWith(t, protectedProfile)
	require.Equal(t, []string{"collector", "grafana", "jaeger", "keycloak", "prometheus", "protected", "vitrine"}, project.ServiceNames())
	keycloak, protected := project.Services["keycloak"], project.Services[protectedProfile]
	require.Equal(t, "service:keycloak", protected.NetworkMode)
	require.Empty(t, protected.Ports, "its ports are those of keycloak")
	env, realm := composeEnv(protected), readRealm(t)

	issuer, err := url.Parse(env["VITRINE_OAUTH_ISSUER"])
	require.NoError(t, err)
	require.Equal(t, composeEnv(keycloak)["KC_HOSTNAME"]+"/realms/"+realm.Realm, issuer.String())
	require.Contains(t, keycloak.Command, "--http-port="+issuer.Port())
	resource, err := url.Parse(env["VITRINE_OAUTH_RESOURCE"])
	require.NoError(t, err)
	require.Equal(t, ":"+resource.Port(), env["VITRINE_ADDR"])
	published := map[string]string{}
	for _, p := range keycloak.Ports {
		published[p.Published] = ":" + p.Published
	}
	require.ElementsMatch(t, []string{":" + issuer.Port(), env["VITRINE_ADDR"], env["VITRINE_ADMIN_ADDR"]}, slices.Collect(maps.Values(published)))

	scopes := map[string]bool{}
	for _, s := range realm.ClientScopes {
		scopes[s.Name] = true
		for _, m := range s.ProtocolMappers {
			if m.ProtocolMapper == "oidc-audience-mapper" {
				require.Equal(t, resource.String(), m.Config["included.custom.audience"])
				require.Equal(t, "mcp", s.Name)
			}
		}
	}
	for _, c := range realm.Clients {
		require.Subset(t, c.DefaultClientScopes, []string{"basic", "mcp"}, "%s: its tokens need a subject and an audience", c.ClientID)
		require.Subset(t, c.OptionalClientScopes, strings.Split(env["VITRINE_OAUTH_SCOPES"], ","), c.ClientID)
		for _, s := range slices.Concat(c.DefaultClientScopes, c.OptionalClientScopes) {
			require.True(t, scopes[s], "%s: there is no scope %s", c.ClientID, s)
		}
		require.False(t, c.DirectAccessGrantsEnabled, "%s: clients do not see passwords", c.ClientID)
		if c.PublicClient {
			require.Equal(t, "S256", c.Attributes["pkce.code.challenge.method"], c.ClientID)
		} else {
			require.Contains(t, string(readFile(t, composeDir+"/README.md")), "client_secret="+c.Secret)
		}
	}
}

// The record is in memory. Its files fit into the volume, and the volume and the server into the memory of the container, of
// which a quarter of what the volume leaves is for the kernel. A file is kept beside the current one and the older ones while
// the oldest is deleted, and each may become half a MiB larger than its size.
func TestComposeProfileHasRoomForTheAudit(t *testing.T) {
	project := composedWith(t, protectedProfile)
	protected := project.Services[protectedProfile]
	env := composeEnv(protected)
	number := func(name string) int {
		t.Helper()
		n, err := strconv.Atoi(env[name])
		require.NoError(t, err, name)
		require.Positive(t, n, name)
		return n
	}
	found := regexp.MustCompile(`size=(\d+)m`).FindStringSubmatch(project.Volumes["audit"].DriverOpts["o"])
	require.NotNil(t, found)
	volume, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	files := number("VITRINE_AUDIT_MAX_FILES") + 2
	require.LessOrEqual(t, files*number("VITRINE_AUDIT_MAX_SIZE")+files/2+1, volume)
	require.LessOrEqual(t, number("VITRINE_MAX_MEMORY"), (int(protected.MemLimit)-volume<<20)*3/4)
	require.NoError(t, server.Limits{MaxMemory: number("VITRINE_MAX_MEMORY")}.Check())
}

// The real server starts with the environment, the rules and the folders of the profile, and refuses
// a call without a token, without having asked Keycloak.
func TestComposeProfileServes(t *testing.T) {
	project := composedWith(t, protectedProfile)
	protected := project.Services[protectedProfile]
	env := composeEnv(protected)
	env["VITRINE_POLICY"] = mounted(t, protected, env["VITRINE_POLICY"])
	require.Equal(t, "audit", mounted(t, protected, filepath.Dir(env["VITRINE_AUDIT_FILE"])))
	require.Contains(t, project.Volumes["audit"].DriverOpts["o"], "uid=65532", "the image's user writes it")
	mounted(t, protected, env["VITRINE_ROOT"])
	env["VITRINE_ADMIN_TOKEN_FILE"] = project.Secrets[protected.Secrets[0].Source].File
	known := demonstrationEnvironment(t)
	var c corev1.Container
	for name, value := range env {
		require.Contains(t, known, name)
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	log, err := serves(t, c, stateKeys(t, oneKey()), func(e service.Endpoints) {
		status, challenge := called(t, e.MCP)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Contains(t, challenge, `resource_metadata="http://localhost:8086/.well-known/oauth-protected-resource/mcp"`)
	})
	require.NoError(t, err, log)
}
