package check

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/service"
)

// accessValues are those of a server that knows who calls, in all ways of the chart together.
func accessValues() Values {
	all := maps.Clone(protectedValues())
	all["oauth"] = maps.Clone(all["oauth"].(Values))
	all["oauth"].(Values)["introspection"] = Values{"client": "mcp", "secretName": "vitrine-introspection"}
	all["tls"] = Values{"secretName": "vitrine-tls"}
	all["audit"] = Values{"enabled": true, "keySecretName": "vitrine-audit-key", "strict": true, "maxSizeMiB": 10, "maxFiles": 3}
	all["serviceMonitor"] = Values{"enabled": true}
	return all
}

// mountedFiles returns a folder with what the pods of the chart have mounted below /etc/vitrine and
// /var/log/vitrine.
func mountedFiles(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	cert, key := certificate(t)
	for file, text := range map[string]string{
		"etc/vitrine/tls/tls.crt": cert, "etc/vitrine/tls/tls.key": key, "etc/vitrine/client-ca/ca.crt": cert,
		"etc/vitrine/policy/policy.yaml": protectedRules, "etc/vitrine/audit-key/key": oneKey(),
		"etc/vitrine/introspection/client-secret": "secret\n", "var/log/vitrine/.keep": "",
	} {
		file = filepath.Join(root, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return root
}

// certificate returns a certificate that has signed itself, and its key, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vitrine"}, DNSNames: []string{"vitrine"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// The values about callers become variables, and each file that they name is mounted.
func TestAccessValuesAreSettings(t *testing.T) {
	values := accessValues()
	values["tls"].(Values)["clientCASecretName"] = "vitrine-client-ca"
	all := rendered(t, values)
	spec := serverPod(t, all)
	env := envOf(spec.Containers[0])
	for name, want := range map[string]string{
		"VITRINE_OAUTH_ISSUER": "https://login.example.com", "VITRINE_OAUTH_RESOURCE": "https://mcp.example.com/mcp",
		"VITRINE_OAUTH_SCOPES": "files:read", "VITRINE_OAUTH_INTROSPECTION_CLIENT": "mcp",
		"VITRINE_AUDIT_MAX_SIZE": "10", "VITRINE_AUDIT_MAX_FILES": "3", "VITRINE_AUDIT_STRICT": "true",
	} {
		require.Equal(t, want, env[name], name)
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	named := 0
	for name, value := range env {
		if !strings.HasPrefix(value, "/etc/vitrine/") && !strings.HasPrefix(value, "/var/log/") {
			continue
		}
		found := false
		for _, m := range spec.Containers[0].VolumeMounts {
			if m.MountPath != filepath.Dir(value) {
				continue
			}
			found = true
			require.Equal(t, m.Name != "audit", m.ReadOnly, m.Name)
			switch source := volumes[m.Name]; {
			case source.Secret != nil:
				require.Equal(t, int32(0o440), *source.Secret.DefaultMode)
				require.True(t, hasPath(source.Secret.Items, filepath.Base(value)), value)
			case source.ConfigMap != nil:
				rules, err := find(all, "ConfigMap", source.ConfigMap.Name)
				require.NoError(t, err)
				require.Equal(t, strings.TrimSpace(protectedRules), strings.TrimSpace(rules["data"].(map[string]any)[filepath.Base(value)].(string)))
			default:
				require.Equal(t, "50Mi", source.EmptyDir.SizeLimit.String(), "the older files, the present one, and one more")
			}
		}
		require.True(t, found, "nothing is mounted for %s=%s", name, value)
		named++
	}
	require.Equal(t, 8, named, "state keys, introspection, certificate, its key, authorities, rules, record, key of the record")

	c := spec.Containers[0]
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
	}
	monitor := as[*monitoringv1.ServiceMonitor](t, all)[0]
	require.Equal(t, "https", strings.ToLower(string(*monitor.Spec.Endpoints[0].Scheme)))
	require.Empty(t, as[*corev1.Pod](t, all), "helm test has no certificate")
}

func hasPath(items []corev1.KeyToPath, path string) bool {
	for _, i := range items {
		if i.Path == path {
			return true
		}
	}
	return false
}

// Without a resource of its own the endpoint is what the route leads to.
func TestResourceIsTheRoute(t *testing.T) {
	values := gatewayValues()
	values["oauth"] = Values{"issuers": []any{"https://login.example.com"}}
	all := rendered(t, values)
	require.Equal(t, "https://mcp.example.com/mcp", envOf(serverContainer(t, all))["VITRINE_OAUTH_RESOURCE"])
	route, err := find(all, "HTTPRoute", "vitrine")
	require.NoError(t, err)
	require.Contains(t, asYAML(t, route), "value: /.well-known/oauth-protected-resource")
}

// A protected server refuses callers without a token, tells them where to get one, and records the refusal.
// helm test finds that.
func TestProtectedServer(t *testing.T) {
	needs.Tool(t, "deploy/curl", "curl", "sh")
	values := protectedValues()
	record := filepath.Join(t.TempDir(), "audit.jsonl")
	all := rendered(t, values)
	c := serverContainer(t, all)
	for i := range c.Env {
		if c.Env[i].Name == "VITRINE_AUDIT_FILE" {
			c.Env[i].Value = record
		}
	}
	test := as[*corev1.Pod](t, all)[0].Spec.Containers[0]
	log, err := serves(t, c, stateKeys(t, oneKey()), func(e service.Endpoints) {
		status, challenge := called(t, e.MCP)
		require.Equal(t, http.StatusUnauthorized, status)
		require.Contains(t, challenge, `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`)
		require.Contains(t, challenge, `scope="files:read"`)
		status, text := get(t, strings.TrimSuffix(e.MCP, "/mcp")+"/.well-known/oauth-protected-resource/mcp", "vitrine")
		require.Equal(t, http.StatusOK, status, text)
		require.Contains(t, text, `"https://login.example.com"`)

		cmd := exec.CommandContext(t.Context(), test.Command[0], append(test.Command[1:], test.Args...)...)
		cmd.Env = append(os.Environ(), "URL="+e.MCP, "no_proxy=*")
		for _, v := range test.Env {
			if v.Name != "URL" {
				cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
			}
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "resource_metadata")
	})
	require.NoError(t, err, log)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.Contains(t, string(text), `"reason":"token_missing"`)
}

// called returns the answer to a call without a token.
func called(t *testing.T, url string) (status int, challenge string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header.Get("WWW-Authenticate")
}
