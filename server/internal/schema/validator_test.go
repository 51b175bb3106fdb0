package schema

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// newValidator returns a validator and the limits that it has reached.
func newValidator(steps, bytes int) (*Validator, func() []string) {
	var reached []string
	v := NewValidator(limits.Limits{MaxValidationSteps: steps, MaxValidationBytes: bytes, MaxArgumentBytes: 48 << 20, MaxArgumentBytesTotal: 256 << 20}, func(limit string) { reached = append(reached, limit) })
	return v, func() []string { return reached }
}

// largeArray is an array of more than 64 KiB.
var largeArray = jsontext.Value("[" + strings.Repeat("1,", freeBytes) + "1]")

func TestTooManyStepsNameTheLimit(t *testing.T) {
	s, err := Parse(jsontext.Value(`{"items":{"type":"integer"}}`))
	require.NoError(t, err)
	v, reached := newValidator(10_000, 1<<20)
	faults, err := v.Validate(t.Context(), senders(1)[0], s, 0, largeArray)
	require.Empty(t, faults)
	var answer *mcp.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, mcp.CodeInvalidParams, answer.Code)
	require.Contains(t, answer.Message, "max_validation_steps")
	require.Equal(t, mcp.ErrorData{Limit: limits.NameValidationSteps}, answer.Data)
	require.Equal(t, []string{limits.NameValidationSteps}, reached())

	faults, err = v.Validate(t.Context(), senders(1)[0], s, 1_000_000, largeArray) // as a tool that has raised it
	require.NoError(t, err)
	require.Empty(t, faults)
}

func TestSmallValuesHaveAShareOfTheSteps(t *testing.T) {
	require.Equal(t, 1<<16, StepsFor(768<<16, 0, 0))
	require.Equal(t, 1<<16, StepsFor(768<<16, 4<<10, 0))
	require.Equal(t, 1<<16+16*1000, StepsFor(768<<16, 0, 1000))
	require.Equal(t, 3<<16, StepsFor(768<<16, 0, 1_000_000), "of a large schema")
	require.Equal(t, 1<<19, StepsFor(1<<24, 96<<10, 0))
	require.Equal(t, 1<<24, StepsFor(1<<24, 3<<20, 0))
	require.Equal(t, 1<<24, StepsFor(1<<24, 4<<20, 1_000_000))
}

func TestSmallTextsHaveAShareOfTheMemory(t *testing.T) {
	require.Equal(t, 3<<20, DecodedFor(48<<20, 0))
	require.Equal(t, 3<<20, DecodedFor(48<<20, 64<<10))
	require.Equal(t, 24<<20, DecodedFor(48<<20, 512<<10))
	require.Equal(t, 48<<20, DecodedFor(48<<20, 4<<20))

	type wide struct {
		Rows []struct {
			Names [30]string `json:"names,omitzero"`
		} `json:"rows"`
	}
	s, err := For(reflect.TypeFor[wide]())
	require.NoError(t, err)
	v, reached := newValidator(Steps, 1<<20)
	rows := func(n int) jsontext.Value {
		return jsontext.Value(`{"rows":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`)
	}
	_, _, err = v.DecodeFor(t.Context(), senders(1)[0], s, 0, rows(2000), new(wide))
	require.NoError(t, err)
	require.Empty(t, reached())
	_, _, err = v.DecodeFor(t.Context(), senders(1)[0], s, 0, rows(20_000), new(wide))
	require.ErrorContains(t, err, "max_argument_bytes")
	require.Equal(t, []string{limits.NameArgumentBytes}, reached())
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

// A sender is a caller whose messages are validated.
type sender struct {
	callers *share.Table
	key     share.Key
}

func (s sender) HoldCaller() *share.Caller { return s.callers.Get(s.key) }

func (s sender) HoldValue(int) (*share.Held, error) { return nil, nil }

// senders returns different callers.
func senders(n int) (all []sender) {
	callers := share.NewTable()
	for range n {
		all = append(all, sender{callers, share.KeyOfConnection()})
	}
	return all
}

func TestLargeValuesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Parse(jsontext.Value(`{}`))
		require.NoError(t, err)
		v, reached := newValidator(Steps, 2*len(largeArray))
		busy := senders(2)
		other := busy[1].HoldCaller()
		require.True(t, v.large.TryAcquireN(other, len(largeArray)+1)) // as a validation that goes on
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := v.Validate(ctx, busy[0], s, 0, largeArray)
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, []string{"max_validation_bytes"}, reached())
		require.Equal(t, share.Usage{Size: 2 * len(largeArray), Used: len(largeArray) + 1, Holders: 1, Waiting: 1, Waiters: 1}, v.Usage())
		small, err := v.Validate(t.Context(), busy[0], s, 0, jsontext.Value(`[1]`))
		require.NoError(t, err, "a small value does not wait")
		require.Empty(t, small)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		v.large.ReleaseN(other, len(largeArray)+1)
		_, err = v.Validate(t.Context(), busy[0], s, 0, largeArray)
		require.NoError(t, err)
		other.Release()
		require.Zero(t, busy[0].callers.Len())
	})
}

// The large values of one caller wait behind each other, and not those of another caller behind them.
func TestLargeValuesOfOneCallerDoNotDelayThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Parse(jsontext.Value(`{}`))
		require.NoError(t, err)
		v, _ := newValidator(Steps, len(largeArray))
		callers := senders(3)
		held := callers[0].HoldCaller()
		require.True(t, v.large.TryAcquireN(held, len(largeArray)))
		var order []int
		var mu sync.Mutex
		validate := func(n int) {
			go func() {
				_, err := v.Validate(t.Context(), callers[n], s, 0, largeArray)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
				require.NoError(t, err)
			}()
			synctest.Wait()
		}
		for range 10 {
			validate(1)
		}
		validate(2)
		v.large.ReleaseN(held, len(largeArray))
		held.Release()
		synctest.Wait()
		require.Len(t, order, 11)
		require.Contains(t, order[:3], 2, "not behind all of the other's")
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
