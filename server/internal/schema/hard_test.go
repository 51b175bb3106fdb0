package schema

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

type kelvin float64

// The scan finds numbers that strconv needs long for wherever they are decoded, and they have their values.
func TestHardNumbers(t *testing.T) {
	type Nested struct {
		Any    any                  `json:"any,omitempty"`
		Many   []any                `json:"many,omitempty"`
		Floats []float64            `json:"floats,omitempty"`
		By     map[string][]float32 `json:"by,omitempty"`
		Named  []kelvin             `json:"named,omitempty"`
		Raw    jsontext.Value       `json:"raw,omitempty"`
	}
	hard := "[" + strings.Repeat("7e-320,", jsonvalue.Few) + "7e-320]"
	for _, typ := range []reflect.Type{reflect.TypeFor[Nested](), reflect.TypeFor[struct {
		Nested
		Rule int `json:"rule,omitempty" minimum:"1" default:"2"`
	}]()} {
		s, err := For(typ)
		require.NoError(t, err)
		for name, want := range map[string]bool{"any": true, "many": true, "floats": true, "named": true, "raw": false} {
			var seen oddities
			_, ok := s.shape.admits([]byte(`{"`+name+`":`+hard+`}`), 0, &seen)
			require.True(t, ok, name)
			require.Equal(t, want, seen.hard > jsonvalue.Few, name)
		}
		var seen oddities
		_, ok := s.shape.admits([]byte(`{"by":{"a":`+hard+`}}`), 0, &seen)
		require.True(t, ok)
		require.Greater(t, seen.hard, jsonvalue.Few)

		into := reflect.New(typ)
		faults, err := s.Decode(t.Context(), Steps, []byte(`{"any":7e-320,"many":[[9007199254740993]],"floats":`+hard+`,"by":{"a":[1e-45,1]},"named":[7e-320]}`), into.Interface())
		require.NoError(t, err)
		require.Nil(t, faults)
		got := into.Elem()
		if got.Type() != reflect.TypeFor[Nested]() {
			got = got.Field(0)
		}
		value := got.Interface().(Nested)
		require.Equal(t, 7e-320, value.Any)
		require.Equal(t, []any{[]any{9007199254740992.0}}, value.Many)
		require.Equal(t, 7e-320, value.Floats[jsonvalue.Few])
		require.Equal(t, []float32{1e-45, 1}, value.By["a"])
		require.Equal(t, []kelvin{7e-320}, value.Named)
	}
}

// A number that its Go type does not hold has the same fault however long the text is.
func TestFaultsOfLongLists(t *testing.T) {
	type lists struct {
		Floats []float32 `json:"floats"`
	}
	s, err := For(reflect.TypeFor[lists]())
	require.NoError(t, err)
	for _, count := range []int{1, 5000, 50_000} {
		for item, want := range map[string]string{"1e39": "number is out of the range of float32", `"x"`: "must be a number, got string", "null": "must be a number, got null"} {
			text := `{"floats":[` + strings.Repeat("1,", count-1) + item + `]}`
			faults, err := s.Decode(t.Context(), Steps, []byte(text), new(lists))
			require.NoError(t, err)
			require.Len(t, faults, 1)
			require.Equal(t, "/floats/"+strconv.Itoa(count-1)+": "+want, faults[0].String())
		}
	}
}
