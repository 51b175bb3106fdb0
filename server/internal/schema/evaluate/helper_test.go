package evaluate

import (
	"strings"
	"testing"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func compiled(tb testing.TB, text string) *Program {
	raw, err := jsv.UnmarshalJSON(strings.NewReader(text))
	require.NoError(tb, err)
	c := jsv.NewCompiler()
	c.AssertFormat()
	require.NoError(tb, c.AddResource("schema", raw))
	p, err := Compile(c, "schema", raw)
	require.NoError(tb, err)
	return p
}
