package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// Bounds on what a model and a log get of one bad value.
const (
	maxFaults  = evaluate.MaxFindings
	maxMessage = 200 // runes of one message
	maxPath    = 256 // bytes of one path
	maxEcho    = 40  // runes of a name that came from the input
)

// A Fault is one thing that is wrong with a value, worded so that a language model can
// correct it.
type Fault struct {
	// Path is the JSON pointer (RFC 6901) of the faulty value, "" for the root.
	// For a missing or an unknown property it is the pointer of the object. A path longer
	// than 256 bytes is cut and ends in an ellipsis.
	Path string
	// Message says what is expected, in at most 200 characters. Unless Quotes is set, it
	// repeats nothing of the value but its type, counts and property names.
	Message string
	// Quotes marks a message with the error text of a Go type's method, which may repeat the
	// value.
	Quotes bool
	// Named marks a message with names of properties that came with the value.
	Named bool
	// Misfit marks a value of a JSON type that the schema allows and the Go type can never
	// hold: schema and type contradict each other. It is the only fault then.
	Misfit bool
}

// String returns the fault as one line: path, colon, message.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// fault makes a Fault within the bounds.
func fault(path, format string, args ...any) Fault {
	if len(path) > maxPath {
		cut := maxPath - len("…")
		for !utf8.RuneStart(path[cut]) {
			cut--
		}
		path = path[:cut] + "…"
	}
	return Fault{Path: path, Message: clip(fmt.Sprintf(format, args...), maxMessage)}
}

// clip cuts text to n runes, the last one an ellipsis when something was cut.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// named quotes a property name that came from the input.
func named(name string) string { return strconv.Quote(clip(name, maxEcho)) }

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer joins tokens to a JSON pointer. One that is longer than any path may be cut.
func pointer(tokens []string) string {
	size := 0
	for _, token := range tokens {
		size += len("/") + len(token)
	}
	var b strings.Builder
	b.Grow(min(size, maxPath))
	for _, token := range tokens {
		if b.Len() > maxPath {
			break
		}
		b.WriteByte('/')
		if strings.ContainsAny(token, "~/") {
			token = pointerEscaper.Replace(token)
		}
		b.WriteString(token)
	}
	return b.String()
}

// wrap adds to an error, if there is one, what it is about.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// fieldError is an error about the field at a path like "days[].high".
func fieldError(at, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if at == "" {
		return err
	}
	return fmt.Errorf("field %s: %w", at, err)
}

// join appends a name to the path of a field.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return strings.TrimSuffix(at, ".") + "." + name
}
