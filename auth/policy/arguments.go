package policy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxArgumentDepth bounds the nesting of arguments.
	maxArgumentDepth = 128
	// maxExactDigits bounds the length of a number with a fraction or an exponent that is large and
	// may be an integer, because exact arithmetic takes longer than the text is long.
	maxExactDigits = 64
)

// arguments are what expressions can see of the arguments of an operation.
type arguments struct {
	wanted map[string]string // members by their names, with the names as values; nil is all
	left   int               // how many more values may be decoded

	values map[string]any
}

// decodeArguments decodes those members of a JSON object that are wanted, and all if wanted is nil.
// Integers become int64 or uint64, never rounded.
func decodeArguments(text []byte, wanted map[string]string, limit int) (map[string]any, error) {
	if len(text) == 0 {
		return map[string]any{}, nil
	}
	a := arguments{wanted: wanted, left: limit}
	if err := json.Unmarshal(text, &a); err != nil {
		if cause, ok := errors.AsType[*argumentError](err); ok {
			return nil, cause
		}
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	return a.values, nil
}

// An argumentError says why arguments are valid JSON and cannot be decided on.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// errTooManyValues is the error of arguments of which rules read too much.
var errTooManyValues = &argumentError{"the arguments that rules read have too many values (max_policy_values)"}

func argumentErrorf(format string, args ...any) error {
	return &argumentError{fmt.Sprintf(format, args...)}
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *arguments) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return argumentErrorf("the arguments are no JSON object")
	}
	values, err := a.object(dec, a.wanted)
	a.values = values
	return err
}

// object decodes the object that comes next, or the wanted members of it.
func (a *arguments) object(dec *jsontext.Decoder, wanted map[string]string) (map[string]any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	values := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		key, ok := memberName(name, wanted)
		if !ok {
			if err := dec.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		value, err := a.value(dec)
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	_, err := dec.ReadToken()
	return values, err
}

// memberName returns the name of a member, which is a JSON string, and whether it is wanted.
func memberName(name jsontext.Value, wanted map[string]string) (string, bool) {
	if bytes.IndexByte(name, '\\') < 0 && wanted != nil {
		key, ok := wanted[string(name[1:len(name)-1])] // allocates nothing
		return key, ok
	}
	text, err := jsontext.AppendUnquote(nil, name)
	if err != nil {
		return "", false // the decoder has checked it
	}
	key := string(text)
	if wanted != nil {
		_, ok := wanted[key]
		return key, ok
	}
	return key, true
}

// value decodes the value that comes next.
func (a *arguments) value(dec *jsontext.Decoder) (any, error) {
	if a.left--; a.left < 0 {
		return nil, errTooManyValues
	}
	if dec.StackDepth() > maxArgumentDepth {
		return nil, argumentErrorf("the arguments that rules read are nested more than %d deep", maxArgumentDepth)
	}
	switch dec.PeekKind() {
	case '{':
		return a.object(dec, nil)
	case '[':
		return a.array(dec)
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case 't', 'f':
		return token.Bool(), nil
	case '0':
		return number(token.String())
	}
	return nil, nil
}

// array decodes the array that comes next.
func (a *arguments) array(dec *jsontext.Decoder) ([]any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	values := []any{}
	for dec.PeekKind() != ']' {
		value, err := a.value(dec)
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
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && math.Abs(f) < maxExact {
		return f, nil
	}
	if err == nil && math.Abs(f) <= math.MaxUint64 && len(text) <= maxExactDigits {
		if r, ok := new(big.Rat).SetString(text); ok && r.IsInt() {
			return integer(r.Num().String())
		}
	}
	return nil, tooLarge(text)
}

// integer returns an integer as int64, or as uint64 if it is larger.
func integer(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	return nil, tooLarge(text)
}

func tooLarge(text string) error {
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return argumentErrorf("the number %s is no integer of 64 bits, and too large for an exact fraction", text)
}
