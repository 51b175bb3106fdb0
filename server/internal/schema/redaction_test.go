package schema

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// The text for records has no word that came with the arguments.
func TestDiscreetRepeatsNothingOfTheValue(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"type":"object","additionalProperties":false,"properties":{
		"tokens":{"type":"object","additionalProperties":{"type":"object","properties":{"age":{"type":"integer"}}}},
		"list":{"type":"array","items":{"type":"integer"}},
		"a/b~":{"type":"object","additionalProperties":{"type":"integer"}},
		"named":{"type":"object","propertyNames":{"pattern":"^[a-z]+$"}},
		"any":{"anyOf":[{"type":"string"},{"type":"object","required":["x"],"additionalProperties":false,"properties":{"x":{}}}]}
	}}`))
	require.NoError(t, err)
	for value, want := range map[string]string{
		`{"tokens":{"sk-SECRET":"x"}}`:              "/tokens/…: must be an object, got string",
		`{"tokens":{"sk-SECRET":{"age":"SECRET"}}}`: "/tokens/…/age: must be an integer, got string",
		`{"tokens":{"4111111111111111":1}}`:         "/tokens/…: must be an object, got number",
		`{"list":[1,2,"SECRET"]}`:                   "/list/2: must be an integer, got string",
		`{"a/b~":{"~SEC/RET":"x"}}`:                 "/a~1b~0/…: must be an integer, got string",
		`{"SECRET":1}`:                              "unknown property",
		`{"named":{"SECRET":1}}`:                    "/named: property name",
		`{"any":{"SECRET":1}}`:                      "/any: matches none of the alternatives",
	} {
		faults := s.Faults(jsontext.Value(value))
		require.Len(t, faults, 1, value)
		require.Equal(t, want, s.Discreet(faults[0]))
	}
}
