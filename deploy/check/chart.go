// Package check keeps the files in deploy correct: it renders the Helm chart, and generates files
// from the chart, from the settings of the server and from the rules of dashboards. Its tests
// check all manifests against the schemas of Kubernetes and against the server itself. It is a
// module of its own because of the libraries of Kubernetes.
//
//	go test ./... -update     rewrites the generated files
package check

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// The folders and files of the repository, from the folder of this package.
const (
	rootDir    = "../.."
	deployDir  = rootDir + "/deploy"
	chartDir   = deployDir + "/helm/vitrine"
	kubeDir    = deployDir + "/kubernetes"
	composeDir = deployDir + "/compose"
	rulesFile  = rootDir + "/dashboards/rules.yml"
)

// The release in all rendered objects.
const (
	releaseName = "vitrine"
	namespace   = "mcp"
)

// Values are the given values of a chart, which replace its own.
type Values = map[string]any

// A chartSource is the chart with its generated files, and the name of the release.
type chartSource struct {
	chart   *chart.Chart
	release string
}

// loadChart reads the chart. generated has the contents of files by their path in the chart, which
// replace the files on disk.
func loadChart(generated map[string][]byte) (*chartSource, error) {
	c, err := loader.Load(filepath.FromSlash(chartDir))
	if err != nil {
		return nil, err
	}
	if text, ok := generated[schemaName]; ok {
		c.Schema = text
	}
	for name, text := range generated {
		if i := slices.IndexFunc(c.Files, func(f *common.File) bool { return f.Name == name }); i >= 0 {
			c.Files[i] = &common.File{Name: name, Data: text}
		} else {
			c.Files = append(c.Files, &common.File{Name: name, Data: text})
		}
	}
	return &chartSource{c, releaseName}, nil
}

// render returns the text of each template that is not empty, by its path below
// templates. Helm checks the values with the schema first.
func (s *chartSource) render(values Values) (map[string]string, error) {
	if values == nil {
		values = Values{}
	}
	all, err := util.ToRenderValues(s.chart, values, common.ReleaseOptions{
		Name: s.release, Namespace: namespace, Revision: 1, IsInstall: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), s.chart, all)
	if err != nil {
		return nil, err
	}
	rendered := map[string]string{}
	for name, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			rendered[strings.TrimPrefix(name, path.Join(s.chart.Name(), "templates")+"/")] = text + "\n"
		}
	}
	return rendered, nil
}

// manifests renders the chart and returns its objects, without notes and in a fixed order.
func (s *chartSource) manifests(values Values) ([]Manifest, error) {
	texts, err := s.render(values)
	if err != nil {
		return nil, err
	}
	var all []Manifest
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		objects, err := parseManifests(texts[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}
