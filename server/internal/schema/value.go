package schema

import (
	"bytes"
	"encoding/json" // for Number, the form in which the validator takes exact numbers
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
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
			err = errTrailing
		}
	}
	at, err := explained(dec, err)
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
		if !evaluate.NumberInBounds([]byte(literal)) {
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

// explain returns what is wrong with a text that the evaluation does not take for strict JSON, and the
// JSON pointer of its place. It looks for duplicate names last, because a decoder remembers all names
// for that, which takes many times the text.
func explain(raw jsontext.Value) (string, error) {
	at, err := explainWith(raw, jsontext.AllowDuplicateNames(true))
	if err == nil {
		at, err = explainWith(raw)
	}
	return at, err
}

// explainWith is explain with options of the decoder. The error is nil if it finds nothing wrong.
func explainWith(raw jsontext.Value, options ...jsontext.Options) (string, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), options...)
	err := explainValue(dec)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return "", nil
		} else if err == nil {
			err = errTrailing
		}
	}
	return explained(dec, err)
}

func explainValue(dec *jsontext.Decoder) error {
	for {
		if dec.PeekKind() == '0' {
			if number, err := dec.ReadValue(); err != nil { // a token would copy it
				return err
			} else if !evaluate.NumberInBounds(number) {
				return errNumber
			}
		} else if _, err := dec.ReadToken(); err != nil {
			return err
		}
		if dec.StackDepth() == 0 {
			return nil
		}
	}
}

var errTrailing = errors.New("unexpected data after the value")

// explained returns the place and the words of an error of the decoder.
func explained(dec *jsontext.Decoder, err error) (string, error) {
	at := string(dec.StackPointer())
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = string(syntactic.JSONPointer), syntactic.Err
	}
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = errors.New("unexpected end of JSON")
	}
	return at, err
}
