package evaluate

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// A resource is a schema with an identifier of its own and all schemas in it but those of other
// resources. What a dynamic reference means depends on the resources through which the evaluation
// has come.
type resource struct {
	number  int
	root    *node
	anchors map[string]*node // by $dynamicAnchor
}

// A resolver finds the resources of a program with dynamic references.
type resolver struct {
	program   *Program
	compiler  *jsv.Compiler
	url       string
	resources map[string]*resource // by location: the URL of the document, "#" and a pointer
	roots     []string             // the pointers of the resources in the document
	anchors   []string             // the pointers of the schemas with a dynamic anchor
}

// resolve gives each node its resource. It does nothing for a program without dynamic references.
func (p *Program) resolve(c *jsv.Compiler, at string, doc any) error {
	if !p.dynamic {
		return nil
	}
	r := resolver{program: p, compiler: c, url: at, resources: map[string]*resource{}, roots: []string{""}}
	r.walk(doc, "")
	for _, pointer := range r.anchors {
		s, err := c.Compile(location(at, pointer))
		if err != nil {
			return err
		}
		p.nodeOf(s)
	}
	known := map[*node]*jsv.Schema{}
	for len(known) < len(p.bySchema) { // a resource can bring new nodes
		for s, n := range p.bySchema {
			if known[n] == nil {
				known[n] = s
				if err := r.place(n, s); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range p.nodes {
		s := known[n]
		if s.DynamicAnchor != "" && s.DraftVersion >= 2020 {
			n.resource.anchors[s.DynamicAnchor] = n
			p.anchored[s.DynamicAnchor] = append(p.anchored[s.DynamicAnchor], n)
		}
		if n.recursive {
			p.recursive = append(p.recursive, n)
		}
	}
	return nil
}

// place gives a node its resource.
func (r *resolver) place(n *node, s *jsv.Schema) error {
	document, fragment, _ := strings.Cut(s.Location, "#")
	root := ""
	if document == r.url {
		pointer, err := url.PathUnescape(fragment)
		if err != nil {
			return err
		}
		for _, candidate := range r.roots {
			if len(candidate) > len(root) && (pointer == candidate || strings.HasPrefix(pointer, candidate+"/")) {
				root = candidate
			}
		}
	}
	key := location(document, root)
	if r.resources[key] == nil {
		s, err := r.compiler.Compile(key)
		if err != nil {
			return err
		}
		r.resources[key] = &resource{number: len(r.resources), anchors: map[string]*node{}}
		r.resources[key].root = r.program.nodeOf(s)
	}
	n.resource = r.resources[key]
	return nil
}

// location is the location of a schema in a document as the compiler writes it.
func location(document, pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		tokens[i] = url.PathEscape(token)
	}
	return document + "#" + strings.Join(tokens, "/")
}

// Keywords whose value is a schema, a list of schemas or both, and those whose value maps names to
// schemas.
var (
	schemaKeywords = []string{"additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if",
		"items", "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	namingKeywords = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// walk looks for identifiers and anchors in a schema.
func (r *resolver) walk(node any, pointer string) {
	if list, ok := node.([]any); ok {
		for i, item := range list {
			r.walk(item, pointer+"/"+strconv.Itoa(i))
		}
		return
	}
	object, ok := node.(map[string]any)
	if !ok {
		return
	}
	if id, ok := object["$id"].(string); ok && pointer != "" && !strings.HasPrefix(id, "#") {
		r.roots = append(r.roots, pointer)
	}
	if _, ok := object["$dynamicAnchor"].(string); ok {
		r.anchors = append(r.anchors, pointer)
	}
	for keyword, value := range object {
		at := pointer + "/" + escaper.Replace(keyword)
		if slices.Contains(schemaKeywords, keyword) {
			r.walk(value, at)
		}
		if names, ok := value.(map[string]any); ok && slices.Contains(namingKeywords, keyword) {
			for name, sub := range names {
				r.walk(sub, at+"/"+escaper.Replace(name))
			}
		}
	}
}
