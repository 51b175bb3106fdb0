package check

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/distribution/reference"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

const replicasDir = deployDir + "/replicas"

var replicaNames = []string{"replica-1", "replica-2", "replica-3"}

// composedReplicas returns the project with three replicas as docker compose reads it.
func composedReplicas(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.FromSlash(replicasDir + "/compose.yaml")}, cli.WithEnvFiles(), cli.WithDotEnv)
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Equal(t, append([]string{"nginx", "redis"}, replicaNames...), project.ServiceNames())
	return project
}

// No other machine can reach a service, no file is missing, and no image can change.
func TestComposeReplicasAreLocal(t *testing.T) {
	project := composedReplicas(t)
	published := map[string]bool{}
	for name, s := range project.Services {
		require.Empty(t, s.NetworkMode, name)
		require.False(t, s.Privileged, name)
		for _, p := range s.Ports {
			require.Equal(t, "127.0.0.1", p.HostIP, name)
			require.False(t, published[p.Published], p.Published)
			published[p.Published] = true
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				require.True(t, v.ReadOnly, v.Source)
				if filepath.Ext(v.Source) != "" {
					require.FileExists(t, v.Source)
				} else {
					require.DirExists(t, v.Source)
				}
				continue
			}
			require.Contains(t, project.Volumes, v.Source)
		}
		image, err := reference.ParseNormalizedNamed(s.Image)
		require.NoError(t, err)
		tagged, ok := image.(reference.Tagged)
		require.True(t, ok, s.Image)
		if own := s.Image == project.Services["replica-1"].Image; own { // one service builds it, and no other one pulls it
			require.Equal(t, name == "replica-1", s.Build != nil, name)
			require.Equal(t, map[bool]string{true: types.PullPolicyBuild, false: types.PullPolicyNever}[s.Build != nil], s.PullPolicy)
		} else {
			require.Regexp(t, `^\d+\.\d+\.\d+$`, tagged.Tag(), name)
		}
	}
	require.Len(t, published, 4)
	readme := string(readFile(t, replicasDir+"/README.md"))
	for port := range published {
		require.Contains(t, readme, port)
	}
	require.Empty(t, project.Services["redis"].Ports)

	env, err := dotenv.Read(filepath.FromSlash(replicasDir + "/.env"))
	require.NoError(t, err)
	used := submatches(regexp.MustCompile(`\$\{([A-Z_0-9]+)\}`), string(readFile(t, replicasDir+"/compose.yaml")))
	for _, name := range used {
		require.NotEmpty(t, env[name], "%s is not in .env", name)
	}
	for name := range env {
		require.Contains(t, used, name, "nothing uses it")
	}
}

// nginx has the addresses of the replicas and the files that its configuration includes. The replicas
// believe nginx and no other address.
func TestComposeReplicasAreBehindNginx(t *testing.T) {
	project := composedReplicas(t)
	nginx := project.Services["nginx"]
	conf := string(readFile(t, mounted(t, nginx, "/etc/nginx/nginx.conf")))
	address := func(name string) string { return project.Services[name].Networks["default"].Ipv4Address }
	var want []string
	for _, name := range replicaNames {
		s := project.Services[name]
		env := composeEnv(s)
		require.Equal(t, ":8080", env["VITRINE_ADDR"])
		want = append(want, address(name)+":8080")
		require.Equal(t, address("nginx"), env["VITRINE_TRUSTED_PROXIES"])
		require.Contains(t, nginx.DependsOn, name)
		require.Contains(t, s.DependsOn, "redis", "it would end before the replicas")
		refuse, err := time.ParseDuration(env["VITRINE_REFUSE_TIME"])
		require.NoError(t, err)
		for _, fail := range submatches(regexp.MustCompile(`fail_timeout=(\w+)`), conf) {
			span, err := time.ParseDuration(fail)
			require.NoError(t, err)
			require.Less(t, span, refuse, "nginx has to learn that a replica ends")
		}
		require.Greater(t, time.Duration(*s.StopGracePeriod), budget(t, env))
		require.NoError(t, server.Limits{MaxMemory: int(s.MemLimit) * 3 / 4}.Check())
	}
	require.Equal(t, want, submatches(regexp.MustCompile(`(?m)^\t\tserver (\S+)`), conf))
	require.EqualValues(t, 8080, nginx.Ports[0].Target)
	require.Contains(t, conf, "listen 8080;")

	mounts := map[string]string{"nginx.conf": conf}
	for _, v := range nginx.Volumes {
		mounts[strings.TrimPrefix(v.Target, "/etc/nginx/")] = string(readFile(t, v.Source))
	}
	for _, text := range mounts {
		for _, file := range submatches(regexp.MustCompile(`(?m)^\s*include (\S+);`), text) {
			require.Contains(t, mounts, file)
		}
	}
}

// Redis keeps what it stores, and its user has the rights of docs/replicas.md and the password of the URL.
func TestComposeReplicasShareAStore(t *testing.T) {
	project := composedReplicas(t)
	redis := project.Services["redis"]
	require.Equal(t, types.ShellCommand{"redis-server", "/etc/redis/redis.conf"}, redis.Command)
	mounted(t, redis, "/data")
	conf := string(readFile(t, mounted(t, redis, "/etc/redis/redis.conf")))
	for _, line := range []string{"maxmemory-policy noeviction", "appendonly yes", "user default off"} {
		require.Contains(t, conf, "\n"+line+"\n")
	}
	store, err := url.Parse(composeEnv(project.Services["replica-1"])["VITRINE_STORE"])
	require.NoError(t, err)
	require.Equal(t, "redis:6379", store.Host)
	password, _ := store.User.Password()
	rights := submatches(regexp.MustCompile(`(?m)^ACL SETUSER vitrine on >secret (.* &vitrine:.*)$`), string(readFile(t, rootDir+"/docs/replicas.md")))
	require.Len(t, rights, 1)
	require.Contains(t, conf, "\nuser "+store.User.Username()+" on >"+password+" "+rights[0]+"\n")
}

// The real server starts with the environment of each replica and with a Redis server that has the
// configuration in Compose. Without the keys that README.md makes it does not start.
func TestComposeReplicasServe(t *testing.T) {
	project := composedReplicas(t)
	conf, err := filepath.Abs(mounted(t, project.Services["redis"], "/etc/redis/redis.conf"))
	require.NoError(t, err)
	redis := redistest.Start(t, "deploy/redis", "--include", conf)
	known := demonstrationEnvironment(t)
	file := project.Secrets["state-keys"].File
	root, err := filepath.Abs(filepath.FromSlash(rootDir))
	require.NoError(t, err)
	rel, err := filepath.Rel(root, file)
	require.NoError(t, err)
	require.Contains(t, string(readFile(t, replicasDir+"/README.md")), "/dev/urandom | base64 > "+filepath.ToSlash(rel)+"\n")
	ignored := exec.CommandContext(t.Context(), "git", "check-ignore", file)
	require.NoError(t, ignored.Run(), "the repository must not get the keys")

	for _, name := range replicaNames {
		s := project.Services[name]
		env := composeEnv(s)
		require.Equal(t, composeEnv(project.Services["replica-1"]), env)
		var secrets []string
		for _, secret := range s.Secrets {
			secrets = append(secrets, "/run/secrets/"+secret.Source)
		}
		require.Equal(t, []string{env["VITRINE_ADMIN_TOKEN_FILE"], env["VITRINE_STATE_KEYS_FILE"]}, secrets)
		require.True(t, slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == env["VITRINE_ROOT"] }))
		env["VITRINE_ADMIN_TOKEN_FILE"] = project.Secrets["admin-token"].File
		env["VITRINE_STORE"] = strings.Replace(env["VITRINE_STORE"], "redis:6379", redis.Addr(), 1)
		var c corev1.Container
		for name, value := range env {
			require.Contains(t, known, name)
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
		log, err := serves(t, c, stateKeys(t, oneKey()), func(e service.Endpoints) {
			status, text := get(t, e.MCP, "localhost:8087")
			require.NotEqual(t, 403, status, text)
		})
		require.NoError(t, err, log)
		require.NotContains(t, log, "store.", "the store is there, and its user may do what it has to")
		_, err = serves(t, c, stateKeys(t, ""), func(service.Endpoints) { t.Error("it serves without keys") })
		require.ErrorContains(t, err, "state keys")
	}
}
