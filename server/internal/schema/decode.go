package schema

import (
	"context"
	"errors"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// Decode checks a value and decodes it into the variable that into points to,
// which must hold its zero value. If there are faults, the variable is zero afterwards. In a text of more than 64 KiB no two members
// of an object may have one name: package wire has looked for that in the whole message, and to do so again takes more memory than the value.
//
// For a schema that [For] inferred and a pointer to its type, a valid value is
// decoded in one typed pass without the validator. Only if this pass fails the value
// is validated, to find all its faults; a number of a text of more than 64 KiB that is out of the
// range of its Go type may be the only one. For any other variable the value is validated and then
// decoded by json/v2, which ignores unknown members. No value is decoded twice.
//
// A valid value that the Go type cannot hold is a fault as well: 2^63 for an
// int64, text that an UnmarshalText method does not accept, or, of an inferred schema, two names
// that are the same key of a map. If the Go type can hold no
// value of this JSON type, schema and type contradict each other ([Fault.Misfit]). JSON Schema
// takes 2.0 and 2e0 for integers, and so does Decode into an inferred type. A missing member
// that has a default is decoded as its default.
//
// Its errors are those of [Schema.Validate], and the variable is zero then.
func (s *Schema) Decode(ctx context.Context, steps int, raw jsontext.Value, into any) ([]Fault, error) {
	typed := s.target != nil && reflect.TypeOf(into) == s.target
	var refused error // of the typed pass
	if typed && s.exact {
		var admitted bool
		admitted, refused = s.typedPass(raw, into)
		if admitted && refused == nil {
			return nil, nil
		}
		if len(raw) > someBytes && outOfRange(refused) {
			return []Fault{decodeFault(refused)}, nil
		}
	}
	if faults, err := s.Validate(ctx, steps, raw); faults != nil || err != nil {
		return faults, err
	}
	// It would be refused again. To decode a large text of many small values twice would cost too much.
	if refused != nil {
		return []Fault{decodeFault(refused)}, nil
	}
	numbers := jsonvalue.For(reflect.TypeOf(into), len(raw), jsonvalue.Costly(raw))
	if typed {
		if len(raw) > someBytes {
			numbers = jsonvalue.WithIntegers(numbers)
		}
		raw, _ = s.completed(raw)
	}
	if err := json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(!s.aliases), helpers(numbers, s.loose || !typed)); err != nil {
		clearTarget(into)
		return []Fault{decodeFault(err)}, nil
	}
	return nil, nil
}

// typedPass decodes a value if the shape admits it. What it refuses then would be refused again.
func (s *Schema) typedPass(raw jsontext.Value, into any) (admitted bool, refused error) {
	var seen oddities
	if _, admitted = s.shape.admits(raw, 0, &seen); !admitted {
		return false, nil
	}
	numbers := jsonvalue.For(s.target, len(raw), seen.hard > jsonvalue.Few)
	large := len(raw) > someBytes
	if large {
		numbers = jsonvalue.WithIntegers(numbers)
	}
	if seen.integers || s.presets {
		if raw, admitted = s.completed(raw); !admitted {
			return false, nil
		}
	}
	if refused = json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(large && !s.aliases), helpers(numbers, large && s.loose)); refused != nil {
		clearTarget(into)
	}
	return true, refused
}

// completed is a value that is completed for its decoders.
func (s *Schema) completed(raw jsontext.Value) (jsontext.Value, bool) {
	var whole func(reflect.Type) bool
	switch {
	case len(raw) <= someBytes:
	case s.aliases: // maps are left to json/v2
		whole = jsonvalue.IsIntegerList
	default:
		whole = jsonvalue.OfIntegers
	}
	return s.shape.completed(raw, whole)
}

// helpers returns what decodes numbers, which may be nil, and values of type any. It returns nil for none: json/v2 is slower with any.
func helpers(numbers *json.Unmarshalers, anys bool) json.Options {
	switch {
	case numbers != nil:
		return json.WithUnmarshalers(numbers)
	case anys:
		return json.WithUnmarshalers(jsonvalue.Any)
	}
	return nil
}

// outOfRange reports whether the error of a decoding is about a number that its Go type does not hold, and not one of a method of the type.
func outOfRange(err error) bool {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	return ok && semantic.JSONKind == '0' && semantic.GoType != nil && errors.Is(semantic.Err, strconv.ErrRange)
}

// someBytes is the size of the texts of which all faults are found if one number is out of the range of its Go type. Of larger
// ones that number may be the only fault, because their validation would double what they cost.
const someBytes = 64 << 10

// clearTarget removes what a failed decoding has written.
func clearTarget(into any) {
	if v := reflect.ValueOf(into); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero()
	}
}

// decodeFault words what a Go type could not hold.
func decodeFault(err error) Fault {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if twice, is := errors.AsType[*jsontext.SyntacticError](err); is && errors.Is(err, jsontext.ErrDuplicateName) {
		return fault(string(twice.JSONPointer), "is the same key as another name")
	}
	if !ok {
		return quoting(fault("", "cannot be decoded: %v", err))
	}
	at := string(semantic.JSONPointer)
	switch {
	case outOfRange(err):
		return fault(at, "number is out of the range of %v", semantic.GoType.Kind())
	case errors.Is(semantic.Err, strconv.ErrSyntax) && semantic.JSONKind == '0':
		return fault(at, "must be an integer without fraction and exponent")
	case semantic.Err != nil && !needsString(semantic):
		return quoting(fault(at, "is not accepted: %v", semantic.Err))
	}
	misfit := fault(at, "is not accepted: %v cannot be decoded from it", semantic.GoType)
	misfit.Misfit = true
	return misfit
}

func quoting(f Fault) Fault {
	f.Quotes = true
	return f
}

// needsString reports whether a value that is not a string was decoded by a text method.
func needsString(err *json.SemanticError) bool {
	if err.GoType == nil || err.JSONKind == '"' {
		return false
	}
	t := reflect.PointerTo(err.GoType)
	return t.Implements(textUnmarshaler[0]) && !t.Implements(jsonMethods[2]) && !t.Implements(jsonMethods[3])
}
