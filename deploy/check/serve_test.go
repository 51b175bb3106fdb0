package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// A locked buffer takes writes from several goroutines.
type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// serves runs a server with the environment of a container, except for values that depend on the
// pod: ports, files, and the delays of the shutdown. It calls f while the server runs.
func serves(t *testing.T, c corev1.Container, keys string, f func(service.Endpoints)) (log string, err error) {
	t.Helper()
	env := envOf(c)
	env["VITRINE_ADDR"], env["VITRINE_ADMIN_ADDR"] = "127.0.0.1:0", "127.0.0.1:0"
	env["VITRINE_SHUTDOWN_DELAY"], env["VITRINE_LINGER_TIMEOUT"] = "0s", "0s"
	root := mountedFiles(t)
	for name, value := range env {
		if strings.HasPrefix(value, "/etc/vitrine/") || strings.HasPrefix(value, "/var/log/vitrine/") {
			env[name] = filepath.Join(root, value)
		}
	}
	env["VITRINE_STATE_KEYS_FILE"] = keys
	if strings.HasPrefix(env["VITRINE_STORE"], secretMark) {
		env["VITRINE_STORE"] = stores(t)
	}
	srv := server.New("deployed", "1")
	server.AddTool(srv, server.Tool{Name: "hello"}, func(context.Context, *server.Call, struct{}) (string, error) {
		return "hello", nil
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	args := argsOf(t, c)
	var stderr locked
	listening, ended := make(chan service.Endpoints, 1), make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, srv, service.WithArgs(args), service.WithGetenv(func(name string) string { return env[name] }),
			service.WithStderr(&stderr), service.WithListening(func(e service.Endpoints) { listening <- e }))
	}()
	select {
	case e := <-listening:
		f(e)
		end()
		err = <-ended
	case err = <-ended:
	}
	return stderr.String(), err
}

// stateKeys writes the content of the Secret, made as in README.md, and returns the file.
func stateKeys(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func oneKey() string { return keyOf(2) }

// keyOf returns a key whose last byte is n.
func keyOf(n byte) string {
	return base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{1}, 31), n)) + "\n"
}

// get returns the status and the text of an answer.
func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the name is not that of the pod
	}}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// podAddress is the Host header of probes and of Prometheus.
const podAddress = "10.1.2.3:9464"

// The real server starts with the environment of each Deployment, and answers the probes,
// Prometheus and clients.
func TestEachDeploymentServes(t *testing.T) {
	eachSet(t, func(t *testing.T, all []Manifest) {
		c := serverContainer(t, all)
		require.NotEmpty(t, envOf(c)["VITRINE_ROOT"], "which this server has no flag for")
		log, err := serves(t, c, stateKeys(t, oneKey()), func(e service.Endpoints) {
			for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				status, text := get(t, e.Admin+probe.HTTPGet.Path, podAddress)
				require.Equal(t, http.StatusOK, status, text)
			}
			_, text := get(t, e.Admin+"/metrics", podAddress)
			require.Contains(t, text, "vitrine_requests_in_flight")

			require.True(t, strings.HasSuffix(e.MCP, "/mcp"))
			for host, refused := range map[string]bool{
				"vitrine": false, "vitrine:8080": false, "vitrine.the-metadata-namespace.svc.cluster.local": false,
				"evil.example": true,
			} {
				status, text := get(t, e.MCP, host)
				require.Equal(t, refused, status == http.StatusForbidden, "%s: %d %s", host, status, text)
			}
		})
		require.NoError(t, err, log)
	})
}

// The test runs what helm test runs in the cluster.
func TestHelmTest(t *testing.T) {
	needs.Tool(t, "deploy/curl", "curl", "sh")
	pods := as[*corev1.Pod](t, rendered(t, nil))
	require.Len(t, pods, 1)
	c := pods[0].Spec.Containers[0]
	require.Equal(t, "http://vitrine:8080/mcp", c.Env[0].Value)
	run := func(url string) (string, error) {
		cmd := exec.CommandContext(t.Context(), c.Command[0], append(c.Command[1:], c.Args...)...)
		cmd.Env = append(os.Environ(), "URL="+url, "no_proxy=*")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	log, err := serves(t, serverContainer(t, rendered(t, nil)), stateKeys(t, oneKey()), func(e service.Endpoints) {
		out, err := run(e.MCP)
		require.NoError(t, err, out)
		require.Contains(t, out, "id 9")
		out, err = run(e.MCP + "/elsewhere")
		require.Error(t, err, "it fails when there is no server: %s", out)
	})
	require.NoError(t, err, log)
}

// A proxy alternates between two replicas without affinity. With the same keys both serve the legacy
// session. With other keys it is lost, and helm test reports it.
func TestHelmTestFindsLostSessions(t *testing.T) {
	needs.Tool(t, "deploy/curl", "curl", "sh")
	c := serverContainer(t, rendered(t, nil))
	test := as[*corev1.Pod](t, rendered(t, nil))[0].Spec.Containers[0]
	log, err := serves(t, c, stateKeys(t, keyOf(2)), func(a service.Endpoints) {
		for _, key := range []byte{2, 3} {
			log, err := serves(t, c, stateKeys(t, keyOf(key)), func(b service.Endpoints) {
				for _, affinity := range []bool{true, false} {
					want := affinity || key == 2
					url := balance(t, affinity, a.MCP, b.MCP)
					cmd := exec.CommandContext(t.Context(), test.Command[0], append(test.Command[1:], test.Args...)...)
					cmd.Env = append(os.Environ(), "URL="+url, "no_proxy=*")
					out, err := cmd.CombinedOutput()
					require.Equal(t, want, err == nil, "key %d, affinity %v: %s", key, affinity, out)
					require.Contains(t, string(out), "legacy: initialize", "modern calls need none")
					require.Equal(t, want, !strings.Contains(string(out), "error: 404"), "the client is to begin anew: %s", out)
				}
			})
			require.NoError(t, err, log)
		}
	})
	require.NoError(t, err, log)
}

// What a pod reports when the Secret is wrong.
func TestMissingStateKeysAreReported(t *testing.T) {
	all := rendered(t, nil)
	pod := serverPod(t, all)
	secret := pod.Volumes[0].Secret
	require.Nil(t, secret.Optional, "the pod is not to start without the Secret")
	require.Len(t, secret.Items, 1, "nor without the key in it")
	require.Equal(t, envOf(pod.Containers[0])["VITRINE_STATE_KEYS_FILE"],
		pod.Containers[0].VolumeMounts[0].MountPath+"/"+secret.Items[0].Path)
	none := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct{ name, file, want string }{
		{"no file", none, "service: state keys: open " + none},
		{"empty", stateKeys(t, "\n"), "there is no key"},
		{"not base64", stateKeys(t, "secret!\n"), "key 1 is not base64"},
		{"short", stateKeys(t, "c2hvcnQ=\n"), "32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serves(t, pod.Containers[0], c.file, func(service.Endpoints) { t.Error("it serves") })
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, fmt.Sprint(err), "secret!")
		})
	}
}
