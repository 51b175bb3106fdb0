package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A text is too short and has the pattern. Escapes, in its name or in itself, change no faults.
func TestEscapesDoNotChangeFaults(t *testing.T) {
	s, err := Parse([]byte(`{"properties":{"abc":{"type":"string","minLength":5,"pattern":"^xy$"}}}`))
	require.NoError(t, err)
	for _, value := range []string{`{"abc":"xy"}`, `{"\u0061bc":"xy"}`, `{"abc":"\u0078y"}`, `{"\u0061bc":"\u0078y"}`} {
		require.Equal(t, []Fault{{Path: "/abc", Message: "must have at least 5 characters, has 2"}}, s.Faults([]byte(value)), value)
	}
}
