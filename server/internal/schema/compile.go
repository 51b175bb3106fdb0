package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on a schema. They hold for what a server's author wrote, so they are
// wide; they are there because a schema may as well come from a file or from a
// server that this one stands in front of.
const (
	MaxSize  = 256 << 10 // bytes
	MaxDepth = 64        // levels of JSON nesting
)

// origin tells the two kinds of schemas apart where compiling them differs.
type origin int

const (
	given    origin = iota // by hand: formats as the dialect says
	inferred               // from a type: formats must hold, or typed decoding would be stricter than its schema
	elicited               // the form of an elicitation: formats are what the user is held to
)

// location is what the compiler calls the document. The scheme is one that no
// loader knows, so a relative $ref cannot come out as a file.
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
	headers, err := findHeaders(doc)
	if err != nil {
		return nil, err
	}
	compiled, err := compileDoc(doc, from)
	if err != nil {
		return nil, err
	}
	s := &Schema{raw: slices.Clone(raw), compiled: compiled, headers: headers, names: map[string]bool{}}
	propertyNames(doc, s.names)
	if err := s.raw.Compact(); err != nil {
		return nil, err
	}
	if object, ok := doc.(map[string]any); ok {
		s.object = object["type"] == "object"
	}
	return s, nil
}

// checkDialect refuses a $schema the validator does not know. The compiler
// would refuse it too, but with a message about loading it.
func checkDialect(doc any) error {
	object, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	dialect, ok := object["$schema"].(string)
	if !ok {
		return nil // absent, or not a string: the compiler says so
	}
	name := strings.TrimSuffix(dialect, "#")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://")
	if !slices.Contains(dialects, name) {
		return fmt.Errorf("$schema %q: dialect is not supported; use 2020-12 (the default), 2019-09, draft-07, draft-06 or draft-04",
			clip(dialect, maxEcho))
	}
	return nil
}

func compileDoc(doc any, from origin) (*jsv.Schema, error) {
	c := jsv.NewCompiler()
	c.DefaultDraft(jsv.Draft2020)
	c.UseLoader(refuse{})
	if from != given {
		c.RegisterFormat(&jsv.Format{Name: "date-time", Validate: dateTime})
		c.AssertFormat()
	}
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(location)
	if err == nil {
		return compiled, nil
	}
	if invalid, ok := invalidSchema(err); ok {
		faults := faultsOf(invalid, doc)
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.String()
		}
		return nil, fmt.Errorf("is not a valid JSON Schema: %s", strings.Join(texts, "; "))
	}
	return nil, fmt.Errorf("cannot be compiled: %w", err)
}

// refuse is a loader that loads nothing, from nowhere. The validator's own
// default reads files.
type refuse struct{}

// Load implements the validator's URLLoader.
func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the document: only references within it are followed", strings.TrimPrefix(url, "vitrine://"))
}

// dateTime is the format date-time as json/v2 reads it into a time.Time, which is
// a little narrower than RFC 3339: no leap seconds, T and Z in capitals.
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

// invalidSchema finds what the metaschema says about a schema. The error that
// wraps it does not unwrap.
func invalidSchema(err error) (*jsv.ValidationError, bool) {
	outer, ok := errors.AsType[*jsv.SchemaValidationError](err)
	if !ok {
		return nil, false
	}
	invalid, ok := outer.Err.(*jsv.ValidationError)
	return invalid, ok
}
