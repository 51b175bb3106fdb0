package jsonvalue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// An object is the same whether its members are collected or not, around the bounds of its parts.
func TestLongObjects(t *testing.T) {
	for _, count := range []int{longObject - 1, longObject, longObject + 1, 2 * longObject, 2*longObject + 1, 5000} {
		members := make([]string, count)
		for i := range members {
			members[i] = fmt.Sprintf(`"m\u0020%d":[%d]`, i, i)
		}
		text := []byte("{" + strings.Join(members, " , ") + "}")
		var want, got any
		require.NoError(t, json.Unmarshal(text, &want))
		require.NoError(t, json.Unmarshal(text, &got, json.WithUnmarshalers(Any)))
		require.Equal(t, want, got)
		require.Len(t, got, count)
	}
}
