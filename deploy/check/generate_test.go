package check

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

// A file must be what the chart, the settings of the server and the rules generate, and no other
// file may lie beside the generated ones.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generated()
	require.NoError(t, err)
	for name, text := range files {
		file := filepath.Join(filepath.FromSlash(deployDir), name)
		on, err := os.ReadFile(file)
		require.NoError(t, err, "go test . -update in deploy/check writes it")
		require.Equal(t, string(text), string(on), "%s has drifted: go test . -update in deploy/check writes it", name)
	}
	for _, p := range parts() {
		entries, err := os.ReadDir(filepath.Join(filepath.FromSlash(kubeDir), p.dir))
		require.NoError(t, err)
		for _, e := range entries {
			if e.Name() != "kustomization.yaml" {
				require.Contains(t, p.files, e.Name(), "nothing writes %s/%s", p.dir, e.Name())
			}
		}
	}
}

// The generator finds values without a comment or a schema.
func TestValuesNeedACommentAndASchema(t *testing.T) {
	schema := Values{"properties": Values{
		"a": Values{"properties": Values{"b": Values{}}}, "c": Values{},
	}}
	for _, c := range []struct{ name, values, want string }{
		{"no comment", "a:\n  # B.\n  b: 1\nc: 2\n", "c has no comment"},
		{"no comment, deeper", "a:\n  b: 1\n# C.\nc: 2\n", "a.b has no comment"},
		{"no schema", "a:\n  # B.\n  b: 1\n  # D.\n  d: 1\n# C.\nc: 2\n", "a.d has no schema"},
		{"no value", "a:\n  # B.\n  b: 1\n", `there is no value [c]`},
		{"in order", "# Of the file.\n\na:\n  # B,\n  # in two lines.\n  b: 1\n# C.\nc: 2\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var doc yaml.Node
			require.NoError(t, yaml.Unmarshal([]byte(c.values), &doc))
			copied := clone(t, schema)
			err := describe(doc.Content[0], copied, "")
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			b := propertiesOf(propertiesOf(copied)["a"].(map[string]any))["b"]
			require.Equal(t, map[string]any{"description": "B, in two lines."}, b)
		})
	}
}

// Base and components give the same objects as the chart with the same values.
func TestKustomizeIsTheChart(t *testing.T) {
	components := map[string]Values{
		"autoscaling": autoscalingValues(), "monitoring": monitoringValues(), "gateway": gatewayValues(),
		"protected": protectedValues(), "store": storeValues(),
	}
	together := func(names ...string) Values {
		all := Values{}
		for _, name := range names {
			maps.Copy(all, components[name])
		}
		if slices.Contains(names, "store") {
			delete(all, "legacyPool") // the component removes it
		}
		return all
	}
	for _, c := range []struct {
		name       string
		components []string
	}{
		{"base", nil},
		{"autoscaling", []string{"autoscaling"}},
		{"monitoring", []string{"monitoring"}},
		{"gateway", []string{"gateway"}},
		{"protected", []string{"protected"}},
		{"store", []string{"store"}},
		{"without a store", []string{"autoscaling", "monitoring", "gateway", "protected"}},
		{"all", []string{"autoscaling", "monitoring", "gateway", "store", "protected"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := filesys.MakeFsInMemory()
			root := filepath.FromSlash(kubeDir)
			require.NoError(t, filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, err := filepath.Rel(root, file)
				require.NoError(t, err)
				return files.WriteFile(filepath.Join("/k", rel), readFile(t, file))
			}))
			text := "resources: [../base]\n"
			if c.components != nil {
				text += "components: [../components/" + strings.Join(c.components, ", ../components/") + "]\n"
			}
			require.NoError(t, files.WriteFile("/k/all/kustomization.yaml", []byte(text)))

			got, want := map[string]string{}, map[string]string{}
			for _, m := range kustomized(t, files, "/k/all") {
				got[m.String()] = asYAML(t, m)
			}
			texts, err := loaded(t).render(together(c.components...))
			require.NoError(t, err)
			for name, text := range texts {
				if strings.HasPrefix(name, "tests/") || filepath.Ext(name) != ".yaml" {
					continue
				}
				objects, err := parseManifests(withoutHelm(text))
				require.NoError(t, err)
				for _, m := range objects {
					want[m.String()] = asYAML(t, m)
				}
			}
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			for name := range want {
				require.Equal(t, want[name], got[name], name)
			}
		})
	}
}

func asYAML(t *testing.T, m Manifest) string {
	t.Helper()
	text, err := sigsyaml.Marshal(m)
	require.NoError(t, err)
	return string(text)
}
