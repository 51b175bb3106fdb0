package schema

import (
	"bytes"
	"encoding/json" // for Number, the form in which the validator takes exact numbers
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on a number's literal. The validator computes with big rationals: 1e1000000
// takes milliseconds, a larger exponent makes it panic (v6.0.3, numValidate), and the time
// for many digits grows with the square of their number. Every float64 and every 64-bit
// integer is far within the bounds.
const (
	maxNumberLen = 512
	maxExponent  = 512
)

// errNumber is the fault of a number outside the bounds.
var errNumber = errors.New("number has too many digits or too large an exponent")

// parseValue decodes strict JSON into any: maps, slices, strings, booleans, nil
// and json.Number. Objects with duplicate names, invalid UTF-8 and anything
// after the value are errors. depth bounds the nesting, 0 leaves it to jsontext
// (10000). An error comes with the JSON pointer of its place.
func parseValue(raw jsontext.Value, depth int) (any, string, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	value, err := nextValue(dec, depth)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return value, "", nil
		} else if err == nil {
			err = errors.New("unexpected data after the value")
		}
	}
	at := string(dec.StackPointer())
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = string(syntactic.JSONPointer), syntactic.Err
	}
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = errors.New("unexpected end of JSON")
	}
	return nil, at, err
}

func nextValue(dec *jsontext.Decoder, depth int) (any, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if depth > 0 && dec.StackDepth() > depth {
		return nil, fmt.Errorf("nested too deeply: more than %d levels", depth)
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		literal := token.String()
		if !numberInBounds([]byte(literal)) {
			return nil, errNumber
		}
		return json.Number(literal), nil
	case '{':
		object := make(map[string]any)
		for dec.PeekKind() != '}' {
			token, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name := token.String() // before the next read, which invalidates the token
			if object[name], err = nextValue(dec, depth); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return object, err
	case '[':
		array := []any{}
		for dec.PeekKind() != ']' {
			item, err := nextValue(dec, depth)
			if err != nil {
				return nil, err
			}
			array = append(array, item)
		}
		_, err := dec.ReadToken()
		return array, err
	}
	return nil, nil
}

// numberInBounds checks the literal of a JSON number.
func numberInBounds(literal []byte) bool {
	if len(literal) > maxNumberLen {
		return false
	}
	i := bytes.IndexAny(literal, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(string(literal[i+1:]))
	return err == nil && exponent >= -maxExponent && exponent <= maxExponent
}
