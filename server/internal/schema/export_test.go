package schema

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Steps is the default of the limit max_validation_steps.
const Steps = 12 << 20

// Faults is Validate with the default limit. An error is a fault.
func (s *Schema) Faults(raw jsontext.Value) []Fault {
	faults, err := s.Validate(context.Background(), Steps, raw)
	if err != nil {
		return []Fault{fault("", "%v", err)}
	}
	return faults
}

// Fill is Decode with the default limit. An error is a fault.
func (s *Schema) Fill(raw jsontext.Value, into any) []Fault {
	faults, err := s.Decode(context.Background(), Steps, raw, into)
	if err != nil {
		return []Fault{fault("", "%v", err)}
	}
	return faults
}
