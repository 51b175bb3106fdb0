package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The demonstration reads files for its clients, in a container with a Secret. So these tests run
// the program itself, and not only a similar server.

// patience is the time that a test waits for something that must happen.
const patience = time.Minute

// keysDir is where the Secret is mounted.
const keysDir = "/etc/vitrine/state-keys"

// demonstration builds cmd/vitrine and returns the program.
func demonstration(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "vitrine")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/vitrine")
	cmd.Dir = filepath.FromSlash(rootDir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// demonstrationEnvironment returns the names of the environment variables of cmd/vitrine.
func demonstrationEnvironment(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), demonstration(t), "serve", "--help").Output()
	require.NoError(t, err)
	return envName.FindAllString(string(out), -1)
}

// image returns the working directory and the arguments of deploy/container/Dockerfile.
func image(t *testing.T) (workdir string, args []string) {
	t.Helper()
	_, final, found := cutLast(string(readFile(t, deployDir+"/container/Dockerfile")), "\nFROM ")
	require.True(t, found)
	workdir = "/"
	for _, dir := range submatches(regexp.MustCompile(`(?m)^WORKDIR (\S+)$`), final) {
		workdir = dir
	}
	for _, cmd := range submatches(regexp.MustCompile(`(?m)^CMD (\[.*\])$`), final) {
		require.NoError(t, json.Unmarshal([]byte(cmd), &args))
	}
	return workdir, args
}

// argsOf returns the arguments with which a container starts the program of its image.
func argsOf(t *testing.T, c corev1.Container) []string {
	t.Helper()
	if len(c.Args) > 0 {
		return c.Args
	}
	_, args := image(t)
	return args
}

// containerRoot makes a folder that stands for the root of a container: with the working
// directory of the image, and with a Secret as the kubelet lays it out.
func containerRoot(t *testing.T, key string) (root string) {
	t.Helper()
	root = t.TempDir()
	workdir, _ := image(t)
	keys := filepath.Join(root, keysDir)
	for _, dir := range []string{filepath.Join(root, workdir), filepath.Join(keys, "..2026_11_21")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(keys, "..2026_11_21", "keys"), []byte(key), 0o600))
	require.NoError(t, os.Symlink("..2026_11_21", filepath.Join(keys, "..data")))
	require.NoError(t, os.Symlink(filepath.Join("..data", "keys"), filepath.Join(keys, "keys")))
	return root
}

// demonstrated starts the program in root, until the test ends, and returns the URL of
// its endpoint.
func demonstrated(t *testing.T, program, root string, args []string, env map[string]string) (mcp string) {
	t.Helper()
	workdir, _ := image(t)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = filepath.Join(root, workdir)
	cmd.Env = []string{"VITRINE_ADDR=127.0.0.1:0", "VITRINE_ADMIN_ADDR=127.0.0.1:0"}
	for name, value := range env {
		switch name {
		case "VITRINE_ADDR", "VITRINE_ADMIN_ADDR":
			continue
		case "VITRINE_ROOT", "VITRINE_STATE_KEYS_FILE":
			value = filepath.Join(root, value)
		case "VITRINE_STORE":
			value = stores(t)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var log locked
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() { <-ended })
	ready := regexp.MustCompile(`"msg":"service\.ready".*"mcp":"([^"]+)"`)
	for late := time.After(patience); ; {
		if m := ready.FindStringSubmatch(log.String()); m != nil {
			return m[1]
		}
		select {
		case <-ended:
			require.Fail(t, "it does not serve", log.String())
		case <-late:
			require.Fail(t, "it is not ready", log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// searched returns the answer of search_text about all lines below a path.
func searched(t *testing.T, mcp, path string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "search_text", "arguments": map[string]any{"pattern": ".", "path": path},
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		},
	}})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, mcp, bytes.NewReader(body))
	require.NoError(t, err)
	req.Host = "vitrine"
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "search_text",
	} {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(answer), `"result":`)
	return string(answer)
}

// The demonstration does not return the keys of the Secret, with the environment of each
// Deployment and in the image alone.
func TestDemonstrationKeepsKeys(t *testing.T) {
	program := demonstration(t)
	key := oneKey()
	secret := strings.TrimSpace(key)
	// tells returns the paths for which the tool returns the keys.
	tells := func(t *testing.T, mcp string) (paths []string) {
		t.Helper()
		for _, path := range []string{
			"", "etc", keysDir, keysDir + "/keys", keysDir[1:] + "/keys", keysDir[1:] + "/..2026_11_21/keys",
			".." + keysDir + "/keys", "../.." + keysDir + "/..data/keys", "keys",
		} {
			if strings.Contains(searched(t, mcp, path), secret) {
				paths = append(paths, path)
			}
		}
		return paths
	}
	eachSet(t, func(t *testing.T, all []Manifest) {
		c := serverContainer(t, all)
		env, root := envOf(c), containerRoot(t, key)
		if env["VITRINE_OAUTH_ISSUER"] != "" {
			return // it answers nobody without a token
		}
		require.NoError(t, os.MkdirAll(filepath.Join(root, env["VITRINE_ROOT"]), 0o755))
		mcp := demonstrated(t, program, root, argsOf(t, c), env)
		require.Empty(t, tells(t, mcp))

		file := filepath.Join(root, env["VITRINE_ROOT"], "note.txt")
		require.NoError(t, os.WriteFile(file, []byte("what is mounted\n"), 0o600))
		require.Contains(t, searched(t, mcp, ""), "what is mounted", "it searches what is mounted")

		delete(env, "VITRINE_ROOT")
		mcp = demonstrated(t, program, root, argsOf(t, c), env)
		require.Empty(t, tells(t, mcp), "in the working directory of the image")
	})
	env := envOf(serverContainer(t, rendered(t, nil)))
	env["VITRINE_ROOT"] = "/"
	_, args := image(t)
	mcp := demonstrated(t, program, containerRoot(t, key), args, env)
	require.Contains(t, tells(t, mcp), "", "that would be found")
}

// The files that are mounted for the demonstration are rendered.
func TestFiles(t *testing.T) {
	s := newSchemas(t)
	for _, c := range []struct {
		name   string
		values Values
		mounts map[string]string // the path of each volume
		want   corev1.VolumeSource
	}{
		{"nothing in it", Values{}, map[string]string{"state-keys": keysDir, "files": "/files"},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{"a volume elsewhere", Values{"files": Values{"root": "/srv/docs", "volume": Values{"configMap": Values{"name": "docs"}}}},
			map[string]string{"state-keys": keysDir, "files": "/srv/docs"},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "docs"}}}},
		{"a server of one's own", Values{"files": Values{"root": ""}}, map[string]string{"state-keys": keysDir}, corev1.VolumeSource{}},
		{"a token of the admin listener", Values{"adminToken": Values{"secretName": "vitrine-admin"}},
			map[string]string{"state-keys": keysDir, "admin-token": "/etc/vitrine/admin-token", "files": "/files"},
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{"neither keys nor files", Values{"files": Values{"root": ""}, "replicaCount": 1, "stateKeys": Values{"enabled": false}},
			map[string]string{}, corev1.VolumeSource{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := rendered(t, c.values)
			for _, m := range all {
				require.NoError(t, validManifest(s, m))
			}
			spec := serverPod(t, all)
			mounts := map[string]string{}
			for _, m := range spec.Containers[0].VolumeMounts {
				require.True(t, m.ReadOnly, m.Name)
				mounts[m.Name] = m.MountPath
			}
			require.Equal(t, c.mounts, mounts)
			require.Equal(t, c.mounts["files"], envOf(spec.Containers[0])["VITRINE_ROOT"])
			if dir := c.mounts["admin-token"]; dir != "" {
				require.Equal(t, dir+"/token", envOf(spec.Containers[0])["VITRINE_ADMIN_TOKEN_FILE"])
			}
			require.Len(t, spec.Volumes, len(c.mounts))
			for _, v := range spec.Volumes {
				if v.Name == "files" {
					require.Equal(t, c.want, v.VolumeSource)
				}
			}
		})
	}
}

// The default arguments, with which other tests start the demonstration and a program that only
// calls service.Run: a flag wins over the variable of its setting.
func TestArgs(t *testing.T) {
	args := func(values Values) []string { return serverContainer(t, rendered(t, values)).Args }
	require.NotEmpty(t, args(nil), "the demonstration would print its help")
	for _, arg := range args(nil) {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		require.Contains(t, chartSettings, name, "settings.%s would have no effect", name)
	}
	require.Empty(t, args(Values{"args": []any{}}), "the image has its own")
	require.Equal(t, []string{"serve", "--h2c"}, args(Values{"args": []any{"serve", "--h2c"}}))
}
