package schema

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen counts how often it is decoded.
type seen int

func (s *seen) UnmarshalText([]byte) error { *s++; decodings++; return nil }

func (s seen) MarshalText() ([]byte, error) { return nil, nil }

var decodings int

// No text is decoded twice, also if a number is not one that its Go type reads or holds: many small values would cost too much.
func TestDecodeOnce(t *testing.T) {
	t.Run("rules of the type", func(t *testing.T) {
		decodesOnce[struct {
			Seen  seen  `json:"seen"`
			Count int64 `json:"count"`
		}](t)
	})
	t.Run("values of type any", func(t *testing.T) {
		decodesOnce[struct {
			Seen  seen  `json:"seen"`
			Any   any   `json:"any,omitempty"`
			Count int64 `json:"count"`
		}](t)
	})
	t.Run("default", func(t *testing.T) {
		decodesOnce[struct {
			Seen  seen  `json:"seen"`
			Count int64 `json:"count"`
			Size  int   `json:"size" default:"2"`
		}](t)
	})
	t.Run("rule of a tag", func(t *testing.T) {
		decodesOnce[struct {
			Seen  seen  `json:"seen" maxLength:"3"`
			Count int64 `json:"count"`
		}](t)
	})
}

func decodesOnce[T any](t *testing.T) {
	s, err := For(reflect.TypeFor[T]())
	require.NoError(t, err)
	for count, faults := range map[string]int{"2": 0, "-2": 0, "2.0": 0, "2e0": 0, "2E0": 0, "99999999999999999999": 1} {
		decodings = 0
		got, err := s.Decode(t.Context(), Steps, []byte(`{"seen":"a","count":`+count+`}`), new(T))
		require.NoError(t, err, count)
		assert.Len(t, got, faults, count)
		assert.Equal(t, 1, decodings, count)
	}
}
