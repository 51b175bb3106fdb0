package main

import (
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fiveFields is the schema of arguments with five fields, and fiveValues are such arguments.
const (
	fiveFields = `{"type":"object","properties":{"city":{"type":"string"},"country":{"type":"string"},"days":{"type":"integer"},` +
		`"metric":{"type":"boolean"},"hours":{"type":"array","items":{"type":"string"}}},` +
		`"required":["city","days"],"additionalProperties":false}`
	fiveValues = `{"city":"Oslo","country":"NO","days":3,"metric":true,"hours":["06","12","18"]}`
)

// validation returns the time that the validator of Vitrine takes for decoded arguments with five
// fields: the median of the rounds.
func (p plan) validation() (time.Duration, error) {
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(fiveFields))
	if err != nil {
		return 0, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", schema); err != nil {
		return 0, err
	}
	validator, err := c.Compile("schema.json")
	if err != nil {
		return 0, err
	}
	values, err := jsonschema.UnmarshalJSON(strings.NewReader(fiveValues))
	if err != nil {
		return 0, err
	}
	took := make([]float64, p.rounds)
	for i := range took {
		n, began := 0, time.Now()
		for ; n == 0 || time.Since(began) < p.slice; n++ {
			if err := validator.Validate(values); err != nil {
				return 0, err
			}
		}
		took[i] = float64(time.Since(began)) / float64(n)
	}
	return time.Duration(spreadOfValues(took).median), nil
}
