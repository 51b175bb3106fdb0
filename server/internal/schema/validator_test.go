package schema

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// newValidator returns a validator and the limits that it has reached.
func newValidator(steps, bytes int) (*Validator, func() []string) {
	var reached []string
	v := NewValidator(limits.Limits{MaxValidationSteps: steps, MaxValidationBytes: bytes, MaxArgumentBytes: 48 << 20}, func(limit string) { reached = append(reached, limit) })
	return v, func() []string { return reached }
}

// largeArray is an array of more than 64 KiB.
var largeArray = jsontext.Value("[" + strings.Repeat("1,", freeBytes) + "1]")

func TestTooManyStepsNameTheLimit(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"items":{"type":"integer"}}`))
	require.NoError(t, err)
	v, reached := newValidator(10_000, 1<<20)
	faults, err := v.Validate(t.Context(), s, 0, largeArray)
	require.Empty(t, faults)
	var answer *mcp.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, mcp.CodeInvalidParams, answer.Code)
	require.Contains(t, answer.Message, "max_validation_steps")
	require.Equal(t, mcp.ErrorData{Limit: limits.NameValidationSteps}, answer.Data)
	require.Equal(t, []string{limits.NameValidationSteps}, reached())

	faults, err = v.Validate(t.Context(), s, 1_000_000, largeArray) // as a tool that has raised it
	require.NoError(t, err)
	require.Empty(t, faults)
}

func TestSmallValuesHaveAShareOfTheSteps(t *testing.T) {
	require.Equal(t, 1<<16, StepsFor(1<<24, 0))
	require.Equal(t, 1<<16, StepsFor(1<<24, 8<<10))
	require.Equal(t, 1<<19, StepsFor(1<<24, 64<<10))
	require.Equal(t, 1<<24, StepsFor(1<<24, 2<<20))
	require.Equal(t, 1<<24, StepsFor(1<<24, 4<<20))
}

func TestCancellationEndsAValidation(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"items":{"type":"integer"}}`))
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller is gone")
	cancel(gone)
	_, err = s.Validate(ctx, Steps, largeArray)
	require.ErrorIs(t, err, gone)
}

func TestLargeValuesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Parse(jsontext.Value(`{}`))
		require.NoError(t, err)
		v, reached := newValidator(Steps, 2*len(largeArray))
		require.True(t, v.large.TryAcquire(int64(len(largeArray)+1))) // as a validation that goes on
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := v.Validate(ctx, s, 0, largeArray)
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, []string{"max_validation_bytes"}, reached())
		small, err := v.Validate(t.Context(), s, 0, jsontext.Value(`[1]`))
		require.NoError(t, err, "a small value does not wait")
		require.Empty(t, small)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		v.large.Release(int64(len(largeArray) + 1))
		_, err = v.Validate(t.Context(), s, 0, largeArray)
		require.NoError(t, err)
	})
}

func TestRegistrationFindsCostlySchemas(t *testing.T) {
	v, _ := newValidator(Steps, 1<<20)
	for _, c := range []struct{ schema, doubt string }{
		{`{"type":"string","pattern":"^[a-z0-9._%+-]+@[a-z0-9.-]+\\.[a-z]{2,63}$"}`, ""},
		{`{"pattern":"^(a?){400}b"}`, "states at once"},
		{`{"patternProperties":{"(x{0,30}){0,30}$":true}}`, "states at once"},
		{branching(40), ""}, // verdicts are remembered
		{strings.Replace(branching(40), `{`, `{"unevaluatedProperties":false,`, 1), "unevaluated"},
		{`{"anyOf":[{"$ref":"#"},{"type":"string"}]}`, "refers to itself"},
		{`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"items":{"$ref":"#"}}]}`, ""},
	} {
		s, err := Parse(jsontext.Value(c.schema))
		require.NoError(t, err)
		doubts := strings.Join(v.Doubts(s, 0), "; ")
		if c.doubt == "" {
			require.Empty(t, doubts, c.schema)
		} else {
			require.Contains(t, doubts, c.doubt, c.schema)
		}
	}
}
