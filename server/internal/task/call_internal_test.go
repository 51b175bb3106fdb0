package task

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// The next run of a task asks again, however the client has written the names of its answers.
func TestParamsWithoutRounds(t *testing.T) {
	kept := paramsWithoutRounds(jsontext.Value(`{"name":"x", "input\u0052esponses":{"a":1},"requestState":"s","request\u0053tate":"t","arguments":{"requestState":1}}`))
	require.Equal(t, `{"name":"x","arguments":{"requestState":1}}`, string(kept))
}
