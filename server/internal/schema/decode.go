package schema

import (
	"bytes"
	"errors"
	"math/big"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// Validate checks a value and returns all its faults, at most 32 and a last one
// that counts the rest, in the order of their paths; nil when it is valid. Text
// that is not strict JSON is one fault.
func (s *Schema) Validate(raw jsontext.Value) []Fault {
	value, at, err := parseValue(raw, 0)
	if err != nil {
		return []Fault{syntaxFault(at, err)}
	}
	err = s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	invalid, ok := err.(*jsv.ValidationError)
	if !ok {
		return []Fault{fault("", "cannot be validated: %v", err)}
	}
	return faultsOf(invalid, value)
}

func syntaxFault(at string, err error) Fault {
	if err == errNumber {
		return fault(at, "%v", err)
	}
	return fault(at, "is not valid JSON: %v", err)
}

// Decode checks a value and decodes it into the variable that into points to,
// which must hold its zero value. When there are faults, the variable is zero
// again and nothing of the value is in it.
//
// For a schema that [For] inferred and a pointer to its type, a valid value is
// decoded in one typed pass without the validator; only a value that this pass
// refuses is validated, to find all its faults. Any other variable gets what
// json/v2 makes of a value that was validated, unknown members ignored.
//
// A valid value that the Go type cannot hold is a fault as well: 2^63 for an
// int64, or text that an UnmarshalText method refuses. If no value of its JSON kind
// could be held, schema and type contradict each other ([Fault.Misfit]). JSON Schema takes 2.0 and
// 2e0 for integers, and so does Decode into an inferred type. A member that is missing
// and has a default is decoded as if its default stood there.
func (s *Schema) Decode(raw jsontext.Value, into any) []Fault {
	typed := s.target != nil && reflect.TypeOf(into) == s.target
	if typed && s.exact {
		if _, ok := s.shape.admits(raw, 0); ok {
			if json.Unmarshal(s.shape.completed(raw), into) == nil {
				return nil
			}
			clearTarget(into)
		}
	}
	if faults := s.Validate(raw); faults != nil {
		return faults
	}
	if typed {
		raw = s.shape.plainIntegers(raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		clearTarget(into)
		return []Fault{decodeFault(err)}
	}
	return nil
}

// clearTarget takes back what a decoding that failed has written.
func clearTarget(into any) {
	if v := reflect.ValueOf(into); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero()
	}
}

// decodeFault words what a Go type could not hold.
func decodeFault(err error) Fault {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return quoting(fault("", "cannot be decoded: %v", err))
	}
	at := string(semantic.JSONPointer)
	switch {
	case errors.Is(semantic.Err, strconv.ErrRange) && semantic.GoType != nil:
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

// needsString tells whether something that is no string was to be decoded by a
// text method.
func needsString(err *json.SemanticError) bool {
	if err.GoType == nil || err.JSONKind == '"' {
		return false
	}
	t := reflect.PointerTo(err.GoType)
	return t.Implements(textUnmarshaler[0]) && !t.Implements(jsonMethods[2]) && !t.Implements(jsonMethods[3])
}

// completed returns a value with the defaults of the members that are missing; a value
// that cannot be read stays as it is.
func (s *shape) completed(raw jsontext.Value) jsontext.Value {
	if !s.presets {
		return raw
	}
	return s.plainIntegers(raw)
}

// plainIntegers adds the defaults of members that are missing, and rewrites numbers such as 2.0 and 2e0 to 2 wherever the shape has
// an integer. JSON Schema says that they are integers; json/v2 does not decode
// them into one. Everything else stays as it is, and so does the whole value if
// it cannot be read.
func (s *shape) plainIntegers(raw jsontext.Value) jsontext.Value {
	var out bytes.Buffer
	err := s.copyPlain(jsontext.NewEncoder(&out), jsontext.NewDecoder(bytes.NewBuffer(raw)))
	if err != nil {
		return raw
	}
	return out.Bytes()
}

func (s *shape) copyPlain(enc *jsontext.Encoder, dec *jsontext.Decoder) error {
	kind := dec.PeekKind()
	if kind == '{' && (s.kind == record || s.kind == dict) || kind == '[' && s.kind == list {
		return s.copyMembers(enc, dec)
	}
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if kind == '0' && s.kind == integer && bytes.ContainsAny(value, ".eE") {
		if number, ok := new(big.Rat).SetString(string(value)); ok && number.IsInt() {
			value = []byte(number.Num().String())
		}
	}
	return enc.WriteValue(value)
}

// copyMembers copies an object or an array.
func (s *shape) copyMembers(enc *jsontext.Encoder, dec *jsontext.Decoder) error {
	open, err := dec.ReadToken()
	if err != nil {
		return err
	}
	object := open.Kind() == '{'
	if err := enc.WriteToken(open); err != nil {
		return err
	}
	var given map[*field]bool
	if s.presets && s.kind == record {
		given = make(map[*field]bool, len(s.fields))
	}
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		member := s.elem
		if object {
			name, err := dec.ReadToken()
			if err != nil {
				return err
			}
			if s.kind == record {
				member = &shape{} // a form may have been given more than it asks for
				if f := s.byName[name.String()]; f != nil {
					member = f.shape
					if given != nil {
						given[f] = true
					}
				}
			}
			if err := enc.WriteToken(name); err != nil {
				return err
			}
		}
		if err := member.copyPlain(enc, dec); err != nil {
			return err
		}
	}
	if given != nil {
		if err := s.writePresets(enc, given); err != nil {
			return err
		}
	}
	end, err := dec.ReadToken()
	if err != nil {
		return err
	}
	return enc.WriteToken(end)
}

// writePresets writes the members with a default that were not given.
func (s *shape) writePresets(enc *jsontext.Encoder, given map[*field]bool) error {
	for _, f := range s.fields {
		if f.preset == nil || given[f] {
			continue
		}
		if err := enc.WriteToken(jsontext.String(f.name)); err != nil {
			return err
		}
		if err := enc.WriteValue(f.preset); err != nil {
			return err
		}
	}
	return nil
}
