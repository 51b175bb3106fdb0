package telemetry

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the catalogue of docs/telemetry.md")

const (
	catalogueBegin = "<!-- written by go test ./telemetry -run TestDocs -update -->\n"
	catalogueEnd   = "<!-- end of what is written -->\n"
)

// The catalogue of docs/telemetry.md is what the code says.
func TestDocs(t *testing.T) {
	const page = "../docs/telemetry.md"
	old, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(old), catalogueBegin)
	require.True(t, found)
	_, tail, found := strings.Cut(rest, catalogueEnd)
	require.True(t, found)
	want := head + catalogueBegin + catalogueText(t) + catalogueEnd + tail
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.True(t, string(old) == want, "docs/telemetry.md is not what the code says: go test ./telemetry -run TestDocs -update")
}

func catalogueText(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n### Metrics\n\n| Prometheus | OTLP | Kind, unit | Labels | What it is |\n|---|---|---|---|---|\n")
	labels := map[string]Label{}
	for _, m := range Catalogue() {
		names := []string{}
		for _, l := range m.Labels {
			names = append(names, l.Name)
			key := l.Name
			if before, known := labels[key]; known && !slices.Equal(before.Values, l.Values) {
				key = l.Name + " of " + m.Name
			}
			labels[key] = l
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s, %s | %s | %s |\n", m.Name, m.OTel, m.Kind, m.Unit, strings.Join(names, ", "), m.Help)
	}
	b.WriteString("\n### Labels\n\n| Label | Attribute | Values |\n|---|---|---|\n")
	for _, key := range keys(labels) {
		l := labels[key]
		values := l.Open
		require.True(t, (l.Values == nil) != (l.Open == ""), "label %s: either a closed set or words", key)
		if l.Values != nil {
			values = ""
			for i, v := range l.Values {
				if i > 0 {
					values += ", "
				}
				values += "`" + v + "`"
				if v == "" {
					values = strings.TrimSuffix(values, "``") + "none"
				}
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", key, l.Attribute, values)
	}
	attributes, names := constants(t)
	b.WriteString("\n### Attributes of spans\n\n| Attribute | What it is |\n|---|---|\n")
	for _, c := range attributes {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.comment)
	}
	b.WriteString("\n### Names of spans and of their events\n\n| Name | What it is |\n|---|---|\n")
	for _, c := range names {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.comment)
	}
	b.WriteString("\n")
	return b.String()
}

type constant struct{ value, comment string }

// constants finds the keys of attributes, and the names of spans and events, with the
// comments that stand behind them.
func constants(t *testing.T) (attributes, names []constant) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
				return true
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			value, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			c := constant{value, strings.TrimSpace(spec.Comment.Text())}
			ident := spec.Names[0].Name
			switch {
			case strings.HasPrefix(ident, "key"):
				attributes = append(attributes, c)
			case strings.HasPrefix(ident, "span"), strings.HasPrefix(ident, "event"):
				names = append(names, c)
			default:
				return true
			}
			require.NotEmpty(t, c.comment, "%s of %s has no comment behind it, which docs/telemetry.md needs", ident, name)
			return true
		})
	}
	byValue := func(a, b constant) int { return strings.Compare(a.value, b.value) }
	slices.SortFunc(attributes, byValue)
	slices.SortFunc(names, byValue)
	return attributes, names
}

// Each attribute that docs/telemetry.md lists for spans is one that some code sets, not only a label of metrics;
// and code sets none under a name that the list does not have.
func TestListedAttributesAreSet(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	listed, set := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, ident := range n.Names {
					listed[ident.Name] = listed[ident.Name] || strings.HasPrefix(ident.Name, "key")
				}
				for _, value := range n.Values {
					ast.Inspect(value, func(n ast.Node) bool { return noteSet(set, n) })
				}
				return false // the names are the declarations
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && fmt.Sprint(f.X) == "attribute" && len(n.Args) > 0 {
					lit, isText := n.Args[0].(*ast.BasicLit)
					require.False(t, isText && lit.Kind == token.STRING, "%s: an attribute without a constant in names.go", name)
				}
			}
			return noteSet(set, n)
		})
	}
	for ident, is := range listed {
		if is {
			require.True(t, set[ident], "%s is listed as an attribute of spans, but it is at most a label of metrics", ident)
		}
	}
}

// noteSet notes the keys below a node that are used otherwise than as the attribute of a label, which is
// string(key) with nothing behind it. It reports whether to look further below.
func noteSet(set map[string]bool, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if prefix, ok := n.X.(*ast.CallExpr); ok && len(prefix.Args) == 1 {
			set[fmt.Sprint(prefix.Args[0])] = true
		}
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.Ident)
		return !ok || f.Name != "string"
	case *ast.Ident:
		set[n.Name] = true
	}
	return true
}
