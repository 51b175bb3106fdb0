package check

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/distribution/reference"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

const composeFile = composeDir + "/compose.yaml"

// composed returns the project as docker compose reads it, without the environment of
// this machine.
func composed(t *testing.T) *types.Project {
	t.Helper()
	project := composedWith(t)
	require.Equal(t, []string{"collector", "grafana", "jaeger", "prometheus", "vitrine"}, project.ServiceNames())
	return project
}

// composedWith returns the project with some profiles.
func composedWith(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.FromSlash(composeFile)},
		cli.WithEnvFiles(), cli.WithDotEnv, cli.WithProfiles(profiles))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.Equal(t, "vitrine", project.Name)
	return project
}

// composeEnv returns the environment of a service.
func composeEnv(s types.ServiceConfig) map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = *value
	}
	return env
}

// mounted returns the file or folder on this machine that a container has as target.
func mounted(t *testing.T, s types.ServiceConfig, target string) string {
	t.Helper()
	i := slices.IndexFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == target })
	require.GreaterOrEqual(t, i, 0, "%s: nothing is mounted at %s", s.Name, target)
	return s.Volumes[i].Source
}

// No other machine can reach a service, no file is missing, and no image can change.
func TestComposeIsLocal(t *testing.T) {
	project := composedWith(t, protectedProfile)
	published := map[string]bool{}
	for name, s := range project.Services {
		if name != protectedProfile { // which is in the network of another service
			require.Empty(t, s.NetworkMode, name)
		}
		require.False(t, s.Privileged, name)
		for _, p := range s.Ports {
			require.Equal(t, "127.0.0.1", p.HostIP, "%s: port %s", name, p.Published)
			require.False(t, published[p.Published], "port %s is published twice", p.Published)
			published[p.Published] = true
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				require.True(t, v.ReadOnly, v.Source)
				_, err := os.Stat(v.Source)
				require.NoError(t, err)
				continue
			}
			require.Contains(t, project.Volumes, v.Source)
		}
		image, err := reference.ParseNormalizedNamed(s.Image)
		require.NoError(t, err)
		tagged, ok := image.(reference.Tagged)
		require.True(t, ok, "%s: %s has no tag", name, s.Image)
		if s.Build == nil {
			require.Regexp(t, `^v?\d+\.\d+\.\d+$`, tagged.Tag(), name)
		}
		for depends := range s.DependsOn {
			require.Contains(t, project.Services, depends)
		}
	}
	require.Len(t, published, 8)
}

// The image is built from the Dockerfile that deploy/lint checks, and does not replace the image
// that the chart pulls.
func TestComposeBuildsTheDockerfile(t *testing.T) {
	vitrine := composed(t).Services["vitrine"]
	require.Empty(t, vitrine.Build.DockerfileInline)
	root, err := filepath.Abs(filepath.FromSlash(rootDir))
	require.NoError(t, err)
	require.Equal(t, root, vitrine.Build.Context)
	require.Equal(t, "deploy/container/Dockerfile", filepath.ToSlash(vitrine.Build.Dockerfile))
	require.FileExists(t, filepath.Join(vitrine.Build.Context, vitrine.Build.Dockerfile))
	require.Empty(t, vitrine.Entrypoint, "the image has its own")
	require.Equal(t, types.ShellCommand{"serve"}, vitrine.Command)
	built, err := reference.ParseNormalizedNamed(vitrine.Image)
	require.NoError(t, err)
	pulled, err := reference.ParseNormalizedNamed(serverContainer(t, rendered(t, nil)).Image)
	require.NoError(t, err)
	require.NotEqual(t, pulled.Name(), built.Name())
}

// .env has exactly the variables that are used.
func TestComposeUsesItsVariables(t *testing.T) {
	env, err := dotenv.Read(filepath.FromSlash(composeDir + "/.env"))
	require.NoError(t, err)
	used := map[string]bool{}
	for _, name := range submatches(regexp.MustCompile(`\$\{([A-Z_]+)\}`), string(readFile(t, composeFile))) {
		require.NotEmpty(t, env[name], "%s is not in .env", name)
		used[name] = true
	}
	for name := range env {
		require.True(t, used[name], "nobody uses %s of .env", name)
	}
}

// Services look for each other at addresses that exist.
func TestComposeAddressesExist(t *testing.T) {
	project := composed(t)
	listens := map[string][]string{
		"vitrine": {port(t, project, "vitrine", "VITRINE_ADDR"), port(t, project, "vitrine", "VITRINE_ADMIN_ADDR")},
		"collector": {
			port(t, project, "collector", "COLLECTOR_OTLP_GRPC"), port(t, project, "collector", "COLLECTOR_OTLP_HTTP"),
		},
		"jaeger": {
			port(t, project, "jaeger", "JAEGER_OTLP_GRPC"), port(t, project, "jaeger", "JAEGER_OTLP_HTTP"),
			port(t, project, "jaeger", "JAEGER_QUERY_HTTP"),
		},
		"prometheus": {"9090"}, "grafana": {"3000"}, // their own defaults
	}
	there := func(host, port string) {
		t.Helper()
		require.Contains(t, listens[host], port, host)
	}
	thereURL := func(text string) {
		t.Helper()
		u, err := url.Parse(text)
		require.NoError(t, err)
		there(u.Hostname(), u.Port())
	}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			there(name, strconv.Itoa(int(p.Target)))
		}
	}
	vitrine := composeEnv(project.Services["vitrine"])
	thereURL(vitrine["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
	thereURL(composeEnv(project.Services["collector"])["TRACES_ENDPOINT"])
	require.Equal(t, "http://127.0.0.1:"+project.Services["jaeger"].Ports[0].Published, vitrine["VITRINE_JAEGER_URL"])
	require.Equal(t, "http://127.0.0.1:"+project.Services["prometheus"].Ports[0].Published, vitrine["VITRINE_PROMETHEUS_URL"])

	host, admin, err := net.SplitHostPort(scrapeTarget(t))
	require.NoError(t, err)
	there(host, admin)

	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			JSONData       struct {
				ExemplarTraceIDDestinations []struct{ DatasourceUID string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(readFile(t, composeDir+"/grafana/datasources.yaml"), &sources))
	require.Len(t, sources.Datasources, 2)
	for _, d := range sources.Datasources {
		require.Equal(t, d.Type, d.UID)
		thereURL(d.URL)
	}
	require.Equal(t, "jaeger", sources.Datasources[0].JSONData.ExemplarTraceIDDestinations[0].DatasourceUID)

	var boards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	require.NoError(t, yaml.Unmarshal(readFile(t, composeDir+"/grafana/dashboards.yaml"), &boards))
	grafana := project.Services["grafana"]
	require.Equal(t, "dashboards", filepath.Base(mounted(t, grafana, boards.Providers[0].Options.Path)))
	mounted(t, grafana, "/etc/grafana/provisioning/datasources/vitrine.yaml")
	mounted(t, grafana, "/etc/grafana/provisioning/dashboards/vitrine.yaml")
}

// A scraping is the configuration of Prometheus for the server.
type scraping struct {
	Global struct {
		Interval string `json:"scrape_interval"`
	}
	ScrapeConfigs []struct {
		StaticConfigs []struct{ Targets []string } `json:"static_configs"`
	} `json:"scrape_configs"`
}

func readScraping(t *testing.T) (s scraping) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(readFile(t, composeDir+"/prometheus.yml"), &s))
	return s
}

// scrapeTarget returns where Prometheus scrapes the server, and scrapeInterval how often.
func scrapeTarget(t *testing.T) string {
	t.Helper()
	return readScraping(t).ScrapeConfigs[0].StaticConfigs[0].Targets[0]
}

func scrapeInterval(t *testing.T) time.Duration {
	t.Helper()
	interval, err := time.ParseDuration(readScraping(t).Global.Interval)
	require.NoError(t, err)
	return interval
}

// port returns the port at which a service listens, by a variable of its environment. It
// must be on all interfaces of its container.
func port(t *testing.T, project *types.Project, name, variable string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(composeEnv(project.Services[name])[variable])
	require.NoError(t, err, "%s of %s", variable, name)
	require.Contains(t, []string{"", "0.0.0.0"}, host)
	return port
}

// The real server starts with its environment in Compose.
func TestComposeServes(t *testing.T) {
	project := composed(t)
	vitrine := project.Services["vitrine"]
	env := composeEnv(vitrine)
	known := demonstrationEnvironment(t)
	var container corev1.Container
	for name, value := range env {
		if strings.HasPrefix(name, "VITRINE_") {
			require.Contains(t, known, name)
		}
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	mounted(t, vitrine, env["VITRINE_ROOT"])
	require.Len(t, vitrine.Secrets, 1)
	require.Equal(t, "/run/secrets/"+vitrine.Secrets[0].Source, env["VITRINE_ADMIN_TOKEN_FILE"])
	secret := project.Secrets[vitrine.Secrets[0].Source]
	require.NotEmpty(t, secret.File, "a container whose root is read-only gets no other secret")
	require.Greater(t, time.Duration(*vitrine.StopGracePeriod), budget(t, env))
	linger, err := time.ParseDuration(env["VITRINE_LINGER_TIMEOUT"])
	require.NoError(t, err)
	require.Greater(t, linger, scrapeInterval(t), "a last scrape comes in time")
	require.NotContains(t, env, "GOMEMLIMIT", "it follows from the limit of the container")
	require.NoError(t, server.Limits{MaxMemory: int(vitrine.MemLimit) * 3 / 4}.Check())

	container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" // is not on this machine
	})
	container.Env = append(container.Env, corev1.EnvVar{Name: "VITRINE_ADMIN_TOKEN_FILE", Value: secret.File})
	log, err := serves(t, container, "", func(e service.Endpoints) {
		status, text := get(t, e.MCP, "localhost:8080")
		require.NotEqual(t, 403, status, text)
		status, text = get(t, e.Admin+"/metrics", scrapeTarget(t))
		require.Equal(t, 200, status, text)
		status, text = get(t, e.Admin+"/", "localhost:9464")
		require.Equal(t, 401, status, text)
		password := strings.TrimSpace(string(readFile(t, secret.File)))
		status, text = get(t, strings.Replace(e.Admin, "://", "://anybody:"+password+"@", 1)+"/", "localhost:9464")
		require.Equal(t, 200, status, text)
		require.Contains(t, string(readFile(t, composeDir+"/README.md")), "password "+password)
	})
	require.NoError(t, err, log)
}

// The services that get the last metrics and spans of the server must end after it. Compose ends
// a service before its dependencies, and other services at the same time.
func TestComposeEndsTheServerFirst(t *testing.T) {
	project := composed(t)
	for name, later := range map[string][]string{"vitrine": {"prometheus", "collector"}, "collector": {"jaeger"}} {
		for _, other := range later {
			require.Contains(t, project.Services[name].DependsOn, other, "%s may end before %s", other, name)
		}
	}
}

// promtool checks the configuration with the rules beside it, as they are in the container.
func TestComposePrometheus(t *testing.T) {
	needs.Tool(t, "deploy/promtool", "promtool")
	prometheus := composed(t).Services["prometheus"]
	dir := t.TempDir()
	for _, v := range prometheus.Volumes {
		if v.Type == types.VolumeTypeBind {
			require.Equal(t, "/etc/prometheus", filepath.Dir(v.Target))
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(v.Target)), readFile(t, v.Source), 0o600))
		}
	}
	i := slices.Index(prometheus.Command, "--config.file=/etc/prometheus/prometheus.yml")
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, prometheus.Command, "--enable-feature=exemplar-storage")
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "1 rule files found")
}

// Jaeger, which is also a collector, checks both configurations with their environment.
func TestComposeTracing(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), rootDir+"/scripts/jaeger.sh", "path").Output()
	require.NoError(t, err)
	program := strings.TrimSpace(string(out))
	if _, err := os.Stat(program); err != nil {
		needs.Skip(t, "deploy/jaeger", "Jaeger is not built")
	}
	project := composed(t)
	for _, name := range []string{"collector", "jaeger"} {
		s := project.Services[name]
		validate := func(env map[string]string) (string, error) {
			cmd := exec.CommandContext(t.Context(), program, "validate")
			for _, arg := range s.Command {
				file, found := strings.CutPrefix(arg, "--config=")
				require.True(t, found, arg)
				cmd.Args = append(cmd.Args, "--config="+mounted(t, s, file))
			}
			for name, value := range env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		env := composeEnv(s)
		out, err := validate(env)
		require.NoError(t, err, "%s: %s", name, out)
		for variable := range env {
			text := ""
			for _, v := range s.Volumes {
				text += string(readFile(t, v.Source))
			}
			require.Contains(t, text, "${env:"+variable+":-", "nothing reads %s of %s", variable, name)
		}
	}
}

// The images of Jaeger and of the collector have the versions with which the end-to-end tests run
// these configurations.
func TestComposeVersions(t *testing.T) {
	mod := string(readFile(t, rootDir+"/e2e/jaeger/go.mod"))
	minor := func(expr string) int {
		t.Helper()
		m := regexp.MustCompile(expr).FindStringSubmatch(mod)
		require.NotNil(t, m, expr)
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return n
	}
	project := composed(t)
	// A release of Jaeger is 1.76 as a module and 2.13 as a program.
	jaeger := minor(`jaegertracing/jaeger v1\.(\d+)\.`) - 63
	require.Contains(t, project.Services["jaeger"].Image, fmt.Sprintf(":2.%d.", jaeger))
	collector := minor(`tailsamplingprocessor v0\.(\d+)\.`)
	require.Contains(t, project.Services["collector"].Image, fmt.Sprintf(":0.%d.", collector))
}
