package schema

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// validatedAny is [validated] for Go types with variables of type any. It has json/v2 decode these in the way that it has for them
// if it looks for duplicate names. Otherwise it decodes them like any other Go type, which takes twice as long for many small
// values (BenchmarkDecodeAny): a text of these costs more than any other of its size.
var validatedAny = json.JoinOptions(validated, json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *any) error {
	if *into != nil {
		return errors.ErrUnsupported // a value of the program, which is decoded into
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	err = json.Unmarshal(raw, into)
	if fault, ok := errors.AsType[*json.SemanticError](err); ok {
		fault.JSONPointer = dec.StackPointer() + fault.JSONPointer
	}
	return err
})))
