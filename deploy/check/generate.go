package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	schemaName = "values.schema.json"
	rulesName  = "files/rules.yml"
)

// A part is a folder below deploy/kubernetes whose objects come from the chart.
type part struct {
	dir    string
	values Values   // with which the chart is rendered
	files  []string // the templates that are in it
}

// parts returns the parts of the overlays.
func parts() []part {
	return []part{
		{"base", nil, []string{
			"deployment.yaml", "service.yaml", "service-admin.yaml", "serviceaccount.yaml",
			"poddisruptionbudget.yaml", "networkpolicy.yaml",
		}},
		{"components/autoscaling", autoscalingValues(), []string{"horizontalpodautoscaler.yaml"}},
		{"components/monitoring", monitoringValues(), []string{"servicemonitor.yaml", "prometheusrule.yaml"}},
		{"components/protected", protectedValues(), []string{"configmap-policy.yaml"}},
		{"components/gateway", gatewayValues(), []string{"httproute.yaml", "service-gateway.yaml", "legacy.yaml"}},
	}
}

func autoscalingValues() Values { return Values{"autoscaling": Values{"enabled": true}} }

func monitoringValues() Values {
	return Values{"serviceMonitor": Values{"enabled": true}, "prometheusRule": Values{"enabled": true}}
}

// storeValues are those of replicas that share a store.
func storeValues() Values { return Values{"store": Values{"secretName": "vitrine-store"}} }

// protectedValues are those of a server that serves nobody without a token.
func protectedValues() Values {
	return Values{
		"oauth": Values{
			"issuers":  []any{"https://login.example.com"},
			"resource": "https://mcp.example.com/mcp",
			"scopes":   []any{"files:read"},
		},
		"policy": Values{"rules": protectedRules},
		"audit":  Values{"enabled": true, "keySecretName": "vitrine-audit-key"},
	}
}

// protectedRules are the rules to begin with.
const protectedRules = `default: deny
rules:
  - name: known-callers
    effect: allow
    when: principal.subject != ""
`

func gatewayValues() Values {
	return Values{
		"httpRoute": Values{
			"enabled": true, "hostnames": []any{"mcp.example.com"}, "parentRefs": []any{Values{"name": "gateway"}},
		},
		"legacyPool": Values{"enabled": true},
	}
}

// generated returns the text of each generated file below deploy.
func generated() (map[string][]byte, error) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		return nil, err
	}
	schema, err := valuesSchema()
	if err != nil {
		return nil, err
	}
	inChart := map[string][]byte{
		rulesName:  append([]byte(notice("#", "dashboards/rules.yml")), rules...),
		schemaName: schema,
	}
	files := map[string][]byte{}
	for name, text := range inChart {
		files[path.Join("helm/vitrine", name)] = text
	}
	source, err := loadChart(inChart)
	if err != nil {
		return nil, err
	}
	for _, p := range parts() {
		texts, err := source.render(p.values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.dir, err)
		}
		for _, name := range p.files {
			if texts[name] == "" {
				return nil, fmt.Errorf("%s: %s is empty", p.dir, name)
			}
			files[path.Join("kubernetes", p.dir, name)] = []byte(notice("#", "deploy/helm/vitrine") + withoutHelm(texts[name]))
		}
	}
	return files, nil
}

// notice is the first line of a generated file.
func notice(comment, source string) string {
	return comment + " Written from " + source + " by go test . -update in deploy/check.\n"
}

var helmLabels = regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)

// withoutHelm removes the labels that say that Helm has made the object.
func withoutHelm(text string) string { return helmLabels.ReplaceAllString(text, "") }

// valuesSchema returns values.schema.json with the descriptions of values.yaml and the settings of
// the server.
func valuesSchema() ([]byte, error) {
	text, err := os.ReadFile(path.Join(chartDir, schemaName))
	if err != nil {
		return nil, err
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	properties := propertiesOf(schema)
	settings, err := freeSettings()
	if err != nil {
		return nil, err
	}
	known := map[string]any{}
	for _, s := range settings {
		known[s] = map[string]any{"type": []string{"string", "boolean", "integer"}}
	}
	properties["settings"].(map[string]any)["properties"] = known

	values, err := os.ReadFile(path.Join(chartDir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, err
	}
	if err := describe(doc.Content[0], schema, ""); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(schema)
	return out.Bytes(), err
}

func propertiesOf(schema map[string]any) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	return properties
}

// describe copies the comments of values into their schema. A value without a comment,
// without a schema, or a schema without a value is an error.
func describe(values *yaml.Node, schema map[string]any, at string) error {
	properties := propertiesOf(schema)
	left := maps.Clone(properties)
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := strings.TrimPrefix(at+"."+key.Value, ".")
		property, ok := properties[key.Value].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %s has no schema", schemaName, name)
		}
		delete(left, key.Value)
		if value.Kind == yaml.MappingNode && len(propertiesOf(property)) > 0 && key.HeadComment == "" {
			if err := describe(value, property, name); err != nil {
				return err
			}
			continue
		}
		text := comment(key)
		if text == "" {
			return fmt.Errorf("values.yaml: %s has no comment", name)
		}
		property["description"] = text
	}
	delete(left, "global") // belongs to Helm
	if len(left) > 0 {
		return fmt.Errorf("%s: there is no value %s of %q", schemaName, slices.Sorted(maps.Keys(left)), at)
	}
	return nil
}

// comment returns the paragraph right above a key.
func comment(key *yaml.Node) string {
	_, last, found := cutLast(key.HeadComment, "\n\n")
	if !found {
		last = key.HeadComment
	}
	lines := strings.Split(last, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.Join(lines, " ")
}

// cutLast slices s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
