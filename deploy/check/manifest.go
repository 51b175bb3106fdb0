package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// A Manifest is one object for Kubernetes, as in its file.
type Manifest map[string]any

func (m Manifest) kind() string { return fmt.Sprint(m["kind"]) }

func (m Manifest) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(fmt.Sprint(m["apiVersion"]), m.kind())
}

func (m Manifest) metadata(key string) any {
	meta, _ := m["metadata"].(map[string]any)
	return meta[key]
}

func (m Manifest) name() string { return fmt.Sprint(m.metadata("name")) }

func (m Manifest) String() string { return m.kind() + " " + m.name() }

// parseManifests splits a text into its objects. A duplicate key is an error.
func parseManifests(text string) ([]Manifest, error) {
	var all []Manifest
	for docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		var m Manifest
		if err := yaml.UnmarshalStrict(doc, &m); err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, m)
		}
	}
}

// knownTypes returns the Go types of all objects that the manifests may have.
func knownTypes() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	return types, errors.Join(scheme.AddToScheme(types), monitoringv1.AddToScheme(types), gatewayv1.Install(types))
}

// typed returns the object as its Go type. A field that the type does not have is an error.
func typed(types *runtime.Scheme, m Manifest) (runtime.Object, error) {
	object, err := types.New(m.gvk())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(object); err != nil {
		return nil, fmt.Errorf("%v: %w", m, err)
	}
	return object, nil
}

// find returns the only object of a kind with a name.
func find(all []Manifest, kind, name string) (Manifest, error) {
	i := slices.IndexFunc(all, func(m Manifest) bool { return m.kind() == kind && m.name() == name })
	if i < 0 {
		return nil, fmt.Errorf("no %s %s in %v", kind, name, all)
	}
	return all[i], nil
}
