// Package schema holds the JSON Schemas of tools: inferred from Go types or
// given by hand, compiled once at registration, and then used to validate and
// decode arguments and results (MCP tools, spec section "Tools").
//
// Schemas come from two places. [For] infers one from a Go type, with the
// field rules of encoding/json/v2, and keeps enough of the type to decode a
// value in one typed pass when that pass proves the schema. [Parse] takes one
// that was written by hand, keeps it keyword for keyword and validates every value
// against it.
//
// The package performs no I/O: a $ref that leaves the document is an error.
package schema

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// A Schema is a compiled JSON Schema. It never changes after [For] or [Parse]
// returned it and is safe for concurrent use.
type Schema struct {
	raw      jsontext.Value
	compiled *jsv.Schema
	program  *evaluate.Program
	object   bool // the root says "type": "object"
	headers  []Header
	names    map[string]bool // of all properties in the schema

	// The rest is set by For only.
	target  reflect.Type // pointer to the Go type, which Decode fills in one pass
	shape   *shape       // how json/v2 reads that type
	presets bool         // there are fields with a default
	exact   bool         // the shape and typed decoding prove the schema
	proven  bool         // encoding the type proves the schema
	loose   bool         // there are values of type any
	aliases bool         // there are maps in which two names may be the same key
}

// Parse compiles a schema that was given by hand. It is kept keyword for
// keyword, in its order and with its numbers as written, but not byte for byte:
// white space between tokens is dropped, because a line break must not get into
// the frame of a byte stream or of an event stream.
//
// The dialect is 2020-12 unless $schema names 2019-09, draft-07, draft-06 or
// draft-04. Formats are checked as each dialect says: annotations from 2019-09
// on, assertions before. Patterns are RE2, so a look-ahead is an error. A
// schema is at most [MaxSize] bytes and [MaxDepth] levels deep.
func Parse(raw jsontext.Value) (s *Schema, err error) {
	defer wrap(&err, "schema")
	return compile(raw, byHand)
}

// JSON returns the schema as tools/list shows it. The caller must not change it.
func (s *Schema) JSON() jsontext.Value { return s.raw }

// RequireObject returns an error unless the root of the schema says "type": "object", as
// the protocol wants of the inputSchema of a tool.
func (s *Schema) RequireObject() error {
	if s.object {
		return nil
	}
	return fmt.Errorf(`schema: the root must have "type": "object" (a struct or a map, not a pointer to one)`)
}

// ProvenByType reports whether every value of the Go type given to [For] satisfies
// the schema once json/v2 has encoded it with its default options. Such output need not
// be validated. It is false for parsed schemas, and for types whose encoding may leave out
// required members or have another form.
func (s *Schema) ProvenByType() bool { return s.proven }

// Headers returns the x-mcp-header annotations of the schema, ordered by path.
func (s *Schema) Headers() []Header { return slices.Clone(s.headers) }

// Validate checks a value and returns its faults in the order of their paths, nil if it is
// valid. If there are more than 32, the last one says so: the others are not looked for. Text
// that is not strict JSON is one fault.
//
// A validation that takes more than so many steps ends with [ErrSteps], one whose context is done
// with the cause of the context.
func (s *Schema) Validate(ctx context.Context, steps int, raw jsontext.Value) ([]Fault, error) {
	findings, more, err := s.program.Run(ctx, raw, steps)
	if err == evaluate.ErrSyntax {
		return []Fault{syntaxFault(explain(raw))}, nil
	}
	if err != nil {
		return nil, err
	}
	return worded(findings, more), nil
}

// ErrSteps says that a validation was given up because it took too many steps.
var ErrSteps = evaluate.ErrSteps

func syntaxFault(at string, err error) Fault {
	if err == errNumber {
		return fault(at, "%v", err)
	}
	return fault(at, "is not valid JSON: %v", err)
}

// Bounds on a schema. They are wide, because the author of the server wrote it. But a
// schema may also come from a file, or from another server behind this one.
const (
	MaxSize  = 256 << 10 // bytes
	MaxDepth = 64        // levels of JSON nesting
)

// An origin is where a schema comes from. The compiler treats formats accordingly.
type origin int

const (
	byHand   origin = iota // written by hand: formats as the dialect says
	fromType               // inferred: formats must hold, because typed decoding checks them
	fromForm               // the form of an elicitation: formats must hold for what the user enters
)

// location is the URL of the document in the compiler. No loader knows its scheme, so that a
// relative $ref cannot name a file.
const location = "vitrine:///schema"

// dialects are the values of $schema that the validator knows, without scheme
// and fragment.
var dialects = []string{
	"json-schema.org/draft/2020-12/schema",
	"json-schema.org/schema",
	"json-schema.org/draft/2019-09/schema",
	"json-schema.org/draft-07/schema",
	"json-schema.org/draft-06/schema",
	"json-schema.org/draft-04/schema",
}

// compile checks and compiles a schema and reads what the server needs to know.
func compile(raw jsontext.Value, from origin) (*Schema, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("is %d bytes long, the limit is %d", len(raw), MaxSize)
	}
	doc, at, err := parseValue(raw, MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("at %q: %w", at, err)
	}
	if err := checkDialect(doc); err != nil {
		return nil, err
	}
	walk, err := walkKeywords(doc)
	if err != nil {
		return nil, err
	}
	compiled, program, err := compileDoc(doc, from)
	if err != nil {
		return nil, err
	}
	s := &Schema{raw: slices.Clone(raw), compiled: compiled, program: program, headers: walk.headers, names: walk.names}
	if err := s.raw.Compact(); err != nil {
		return nil, err
	}
	if object, ok := doc.(map[string]any); ok {
		s.object = object["type"] == "object"
	}
	return s, nil
}

// checkDialect returns an error for a $schema that the validator does not know. The compiler
// would also fail, but with a message about loading.
func checkDialect(doc any) error {
	object, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	dialect, ok := object["$schema"].(string)
	if !ok {
		return nil // absent, or not a string, which the compiler reports
	}
	name := strings.TrimSuffix(dialect, "#")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://")
	if !slices.Contains(dialects, name) {
		return fmt.Errorf("$schema %q: dialect is not supported; use 2020-12 (the default), 2019-09, draft-07, draft-06 or draft-04",
			clip(dialect, maxEcho))
	}
	return nil
}

func compileDoc(doc any, from origin) (*jsv.Schema, *evaluate.Program, error) {
	c := jsv.NewCompiler()
	c.DefaultDraft(jsv.Draft2020)
	c.UseLoader(refuse{})
	if from != byHand {
		c.RegisterFormat(&jsv.Format{Name: "date-time", Validate: dateTime})
		c.AssertFormat()
	}
	if err := c.AddResource(location, doc); err != nil {
		return nil, nil, err
	}
	compiled, err := c.Compile(location)
	if err == nil {
		program, err := evaluate.Compile(c, location, doc)
		return compiled, program, err
	}
	if invalid, ok := invalidSchema(err); ok {
		var lines []string
		for _, f := range schemaFaults(invalid, doc) {
			lines = append(lines, f.String())
		}
		return nil, nil, fmt.Errorf("is not a valid JSON Schema: %s", strings.Join(lines, "; "))
	}
	return nil, nil, fmt.Errorf("cannot be compiled: %w", err)
}

// refuse is a loader that loads nothing. The validator's default loader reads files.
type refuse struct{}

// Load implements the validator's URLLoader.
func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the document: only references within it are followed", strings.TrimPrefix(url, "vitrine://"))
}

// dateTime checks the format date-time as json/v2 reads it into a time.Time. That is a
// little narrower than RFC 3339: no leap seconds, T and Z in capitals.
func dateTime(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	raw, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, new(time.Time))
}

// invalidSchema finds the error of the metaschema. The error that wraps it has no Unwrap.
func invalidSchema(err error) (*jsv.ValidationError, bool) {
	outer, ok := errors.AsType[*jsv.SchemaValidationError](err)
	if !ok {
		return nil, false
	}
	invalid, ok := outer.Err.(*jsv.ValidationError)
	return invalid, ok
}
