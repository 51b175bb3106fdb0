package check

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var update = flag.Bool("update", false, "rewrite the generated files")

// TestMain rewrites the generated files before any test reads them.
func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		if err := writeGenerated(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func writeGenerated() error {
	files, err := generated()
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(filepath.FromSlash(deployDir), name), text, 0o644))
	}
	return err
}

// loaded returns the chart as it is on disk.
func loaded(t *testing.T) *chartSource {
	t.Helper()
	source, err := loadChart(nil)
	require.NoError(t, err)
	return source
}

// rendered returns the objects of the chart with values over its own.
func rendered(t *testing.T, values Values) []Manifest {
	t.Helper()
	all, err := loaded(t).manifests(values)
	require.NoError(t, err)
	return all
}

// fullValues turn everything on.
func fullValues() Values {
	all := Values{
		"telemetry":     Values{"tracesEndpoint": "http://collector.observability:4318/v1/traces"},
		"settings":      Values{"max-task-bytes": 4000000, "h2c": true},
		"podLabels":     Values{"team": "tools"},
		"networkPolicy": Values{"clients": []any{Values{"podSelector": Values{}}}},
		"env":           []any{Values{"name": "OTEL_TRACES_SAMPLER", "value": "always_on"}},
	}
	for _, more := range []Values{autoscalingValues(), monitoringValues(), gatewayValues()} {
		for key, value := range more {
			all[key] = value
		}
	}
	all["serviceMonitor"].(Values)["nativeHistograms"] = true
	all["httpRoute"].(Values)["routes"] = []any{
		Values{"method": "tools/call", "name": "search_text", "service": "vitrine-legacy", "port": 8080},
	}
	return all
}

// A set is one installation.
type set struct {
	name string
	all  []Manifest
}

// sets returns the installations that all tests of manifests check.
func sets(t *testing.T) []set {
	t.Helper()
	return []set{
		{"chart", rendered(t, nil)},
		{"chart with everything", rendered(t, fullValues())},
		{"chart for one replica", rendered(t, Values{"replicaCount": 1, "stateKeys": Values{"enabled": false}})},
		{"chart with tokens, rules and a record", rendered(t, accessValues())},
		{"chart with a store", rendered(t, storeValues())},
		{"chart with the values for replicas", rendered(t, replicasValues(t))},
		{"overlay dev", built(t, "overlays/dev")},
		{"overlay production", built(t, "overlays/production")},
		{"overlay replicas", built(t, "overlays/replicas")},
	}
}

// eachSet runs a test for each installation.
func eachSet(t *testing.T, test func(t *testing.T, all []Manifest)) {
	t.Helper()
	for _, s := range sets(t) {
		t.Run(s.name, func(t *testing.T) { test(t, s.all) })
	}
}

// built runs kustomize in a folder below deploy/kubernetes.
func built(t *testing.T, dir string) []Manifest {
	t.Helper()
	return kustomized(t, filesys.MakeFsOnDisk(), filepath.Join(filepath.FromSlash(kubeDir), dir))
}

func kustomized(t *testing.T, files filesys.FileSystem, dir string) []Manifest {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	require.NoError(t, err)
	text, err := objects.AsYaml()
	require.NoError(t, err)
	all, err := parseManifests(string(text))
	require.NoError(t, err)
	return all
}

// as returns the objects of a Go type.
func as[T runtime.Object](t *testing.T, all []Manifest) (objects []T) {
	t.Helper()
	types, err := knownTypes()
	require.NoError(t, err)
	for _, m := range all {
		object, err := typed(types, m)
		require.NoError(t, err)
		if o, ok := object.(T); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// moduleDir returns the folder of a module in go.mod. It downloads a missing module: go test does
// that only for modules whose packages it builds.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	require.NoError(t, err, "%s", out) // with -json, errors are in the output
	var downloaded struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &downloaded))
	require.DirExists(t, downloaded.Dir)
	return downloaded.Dir
}

// Tests that read the files of a module also pass if the module cache is empty. The module comes
// from the cache of this machine if it has it.
func TestModuleThatIsNotDownloadedYet(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	env := strings.Fields(string(out))
	require.Len(t, env, 2)
	here := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(env[0], "cache", "download"))}
	empty := t.TempDir()
	t.Setenv("GOPROXY", here.String()+","+env[1])
	t.Setenv("GOMODCACHE", empty)
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -modcacherw") // so that the folder can be removed

	dir := moduleDir(t, "sigs.k8s.io/kubectl-validate")
	require.True(t, strings.HasPrefix(dir, empty), "%s is not in the empty cache", dir)
	require.DirExists(t, filepath.Join(dir, "pkg/openapiclient/builtins", oldest))
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	require.NoError(t, err)
	return text
}

// clone copies a value by encoding it to JSON.
func clone[T any](t *testing.T, value T) (copied T) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &copied))
	return copied
}
