package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// Items are equal as values, however they are written.
func TestUniqueItemsComparesValues(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"uniqueItems":true}`))
	require.NoError(t, err)
	large := func(from, step int) string {
		var members []string
		for i := range 20 {
			members = append(members, fmt.Sprintf(`"n%d":[%d]`, (from+step*i)%20, (from+step*i)%20))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for _, equal := range []string{
		`1,1.0`, `100,1e2`, `100,1E+2`, `0.5,5e-1`, `0,-0`, `0,-0.0e5`, `-20,-2e1`, `12345678901234567,12345678901234567.0`, `123456789012345670,12345678901234567e1`,
		`"a","\u0061"`, `"\u0061","\u0061"`, `[1,[2.0]],[1e0,[2]]`, `{"a":1,"b":[]},{"\u0062":[],"a":1.0}`, large(0, 1) + "," + large(7, 3), `null,null`, `true,true`, `[],[]`, `{},{}`,
	} {
		require.Len(t, s.Faults(jsontext.Value("["+equal+"]")), 1, equal)
	}
	for _, different := range []string{
		`1,-1`, `1,"1"`, `10,1`, `1,1.5`, `0,null`, `0,false`, `12345678901234567,12345678901234568`, `123456789012345670,123456789012345671`, `1e300,1e301`,
		`"a","b"`, `"","\u0000"`, `[],{}`, `[1,2],[2,1]`, `[[1],2],[1,[2]]`, `{"a":1},{"a":2}`, `{"a":1},{"b":1}`, `{"a":1},{"a":1,"b":1}`, `true,false`,
		large(0, 1) + "," + strings.Replace(large(7, 3), `"n5"`, `"x"`, 1), large(0, 1) + "," + strings.Replace(large(7, 3), "[5]", "[4]", 1),
	} {
		require.Empty(t, s.Faults(jsontext.Value("["+different+"]")), different)
	}
}

// Of many equal items the fault names the two whose second one comes first.
func TestUniqueItemsNamesTheFirstRepetition(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"uniqueItems":true}`))
	require.NoError(t, err)
	for _, n := range []int{3, 100, 3000, 100_000} {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprint(i)
		}
		items[n-1], items[n-2] = "0", "0"
		faults := s.Faults(jsontext.Value("[" + strings.Join(items, ",") + "]"))
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].String(), fmt.Sprintf("0 and %d", n-2))
	}
}
