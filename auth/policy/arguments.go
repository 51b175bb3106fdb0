package policy

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// maxExactDigits bounds the length of a number with a fraction or an exponent that is large and
// may be an integer, because exact arithmetic takes longer than the text is long.
const maxExactDigits = 64

// decodeArguments decodes those members of a JSON object that are wanted into values, and all if wanted is nil.
// wanted has their names as values too. d decodes them. Integers become CEL's int or uint, never rounded.
func decodeArguments(values map[string]any, text []byte, wanted map[string]string, d decoder) error {
	if len(text) == 0 {
		return nil
	}
	var failed error
	whole := wire.Members(text, func(name, value jsontext.Value) bool {
		key, ok := memberName(name, wanted)
		if ok {
			values[key], failed = d.decode(value)
		}
		return failed == nil
	})
	if failed == nil && !whole {
		failed = notAnObject(text)
	}
	return failed
}

// notAnObject returns the error for arguments that are no valid JSON object.
func notAnObject(text []byte) error {
	var value jsontext.Value
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return errNoObject
}

// An argumentError says why arguments or claims are valid JSON and cannot be decided on. It has no part of them.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// errTooManyValues is the error of arguments of which rules read too much.
var errTooManyValues = &limitError{LimitValues, "the arguments that rules read have too many values"}

var (
	errNoObject = &argumentError{"the arguments are no JSON object"}
	errTooLarge = &argumentError{"a number that is no integer of 64 bits, and too large for an exact fraction"}
)

// memberName returns the name of a member, which is a JSON string, and whether it is wanted.
func memberName(name jsontext.Value, wanted map[string]string) (key string, ok bool) {
	text := jsonvalue.Unquote(name)
	if wanted != nil {
		key, ok = wanted[string(text)] // allocates nothing
		return key, ok
	}
	return string(text), true
}

// A decoder decodes values of arguments.
type decoder struct {
	left  int // how many more values
	depth int // how deep they may be nested
}

// decode decodes one value, which is valid JSON.
func (d *decoder) decode(text jsontext.Value) (any, error) {
	if kind := text.Kind(); kind != '{' && kind != '[' {
		if d.left--; d.left < 0 {
			return nil, errTooManyValues
		}
		return scalar(kind, text)
	}
	return d.next(jsontext.NewDecoder(bytes.NewBuffer(text)))
}

// next decodes the value that comes next.
func (d *decoder) next(dec *jsontext.Decoder) (any, error) {
	if d.left--; d.left < 0 {
		return nil, errTooManyValues
	}
	if dec.StackDepth()+1 > d.depth { // with the arguments themselves
		return nil, &limitError{LimitDepth, fmt.Sprintf("the arguments that rules read are nested more than %d deep", d.depth)}
	}
	kind := dec.PeekKind()
	switch kind {
	case '{':
		return d.object(dec)
	case '[':
		return d.array(dec)
	}
	text, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	return scalar(kind, text)
}

// scalar decodes a value that is no object and no array.
func scalar(kind jsontext.Kind, text jsontext.Value) (any, error) {
	switch kind {
	case '"':
		return types.String(jsonvalue.Unquote(text)), nil // as CEL has it, which makes one object less
	case 't', 'f':
		return kind == 't', nil
	case '0':
		return number(string(text))
	}
	return nil, nil
}

// object decodes the object that comes next.
func (d *decoder) object(dec *jsontext.Decoder) (any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	values := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if values[key], err = d.next(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return values, err
}

// array decodes the array that comes next.
func (d *decoder) array(dec *jsontext.Decoder) (any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	values := []any{}
	for dec.PeekKind() != ']' {
		value, err := d.next(dec)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	_, err := dec.ReadToken()
	return values, err
}

// number returns an int64, a uint64, or a float64 whose absolute value is less than 2^53. Where a
// float64 has no unit digit, only an integer that fits into 64 bits is a number that one can decide on.
func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		return integer(text)
	}
	f, err := jsonvalue.Float([]byte(text), 64)
	if err == nil && math.Abs(f) < maxExact {
		return f, nil
	}
	if err == nil && math.Abs(f) <= math.MaxUint64 && len(text) <= maxExactDigits {
		if r, ok := new(big.Rat).SetString(text); ok && r.IsInt() {
			return integer(r.Num().String())
		}
	}
	return nil, errTooLarge
}

// integer returns an integer as int64, or as uint64 if it is larger.
func integer(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	return nil, errTooLarge
}
