package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// schemas validates objects like an API server that accepts no unknown field. Its schemas are
// those of a Kubernetes release and of custom resource definitions.
type schemas struct {
	builtins string // folder with the OpenAPI documents of a release, by group and version
	crds     string // folder with custom resource definitions
	compiled map[schema.GroupVersionKind]*jsonschema.Schema
}

// validate returns an error for an invalid object. The error for a kind without a schema wraps
// os.ErrNotExist.
func (s *schemas) validate(m Manifest) error {
	gvk := m.gvk()
	compiled := s.compiled[gvk]
	if compiled == nil {
		document, pointer, err := s.load(gvk)
		if err != nil {
			return fmt.Errorf("no schema of %v: %w", gvk, err)
		}
		closeObjects(document)
		compiler := jsonschema.NewCompiler()
		const url = "schema:///document"
		if err := compiler.AddResource(url, document); err != nil {
			return err
		}
		if compiled, err = compiler.Compile(url + "#" + pointer); err != nil {
			return err
		}
		s.compiled[gvk] = compiled
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	object, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	if err := compiled.Validate(object); err != nil {
		return fmt.Errorf("%v: %w", m, err)
	}
	return nil
}

// load returns the document that has the schema of a kind, and the JSON pointer to it.
func (s *schemas) load(gvk schema.GroupVersionKind) (document map[string]any, pointer string, err error) {
	if gvk.Group != "" && strings.Contains(gvk.Group, ".") && gvk.Group != "networking.k8s.io" {
		return s.loadCRD(gvk)
	}
	file := filepath.Join(s.builtins, "api", gvk.Version+".json")
	if gvk.Group != "" {
		file = filepath.Join(s.builtins, "apis", gvk.Group, gvk.Version+".json")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, "", err
	}
	components, _ := document["components"].(map[string]any)
	all, _ := components["schemas"].(map[string]any)
	for name, one := range all {
		kinds, _ := one.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			kind := k.(map[string]any)
			if kind["group"] == gvk.Group && kind["version"] == gvk.Version && kind["kind"] == gvk.Kind {
				return document, "/components/schemas/" + name, nil
			}
		}
	}
	return nil, "", os.ErrNotExist
}

// loadCRD returns the schema in a custom resource definition.
func (s *schemas) loadCRD(gvk schema.GroupVersionKind) (map[string]any, string, error) {
	file := filepath.Join(s.crds, gvk.Group+"_"+strings.ToLower(gvk.Kind)+"s.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, "", err
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == gvk.Version {
			return v.Schema.OpenAPIV3Schema, "", nil
		}
	}
	return nil, "", os.ErrNotExist
}

// closeObjects makes unknown fields an error in a schema and in all schemas within it.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, ok := n["properties"].(map[string]any); ok && n["additionalProperties"] == nil &&
			n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
		for _, child := range n {
			closeObjects(child)
		}
	case []any:
		for _, child := range n {
			closeObjects(child)
		}
	}
}
