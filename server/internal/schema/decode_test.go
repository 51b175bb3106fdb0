package schema

import (
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decodings counts how often a value of type seen is decoded.
var decodings int

type seen struct{}

func (*seen) UnmarshalText([]byte) error { decodings++; return nil }

func (seen) MarshalText() ([]byte, error) { return nil, nil }

// No text is decoded twice, also if a number is not one that its Go type reads or holds: many small values would cost too much.
// One with a value of another JSON type is not decoded.
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
	for count, want := range map[string]struct{ faults, decodings int }{
		"2": {0, 1}, "-2": {0, 1}, "2.0": {0, 1}, "2e0": {0, 1}, "2E0": {0, 1}, "99999999999999999999": {1, 1},
		"1.5": {1, 0}, `"2"`: {1, 0}, "true": {1, 0}, "null": {1, 0}, "[]": {1, 0},
	} {
		decodings = 0
		got, err := s.Decode(t.Context(), Steps, []byte(`{"seen":"a","count":`+count+`}`), new(T))
		require.NoError(t, err, count)
		assert.Len(t, got, want.faults, count)
		assert.Equal(t, want.decodings, decodings, count)
	}
}

// Two names may be the same key of a map. Then one member would be lost, so the value is refused, whatever is beside it.
func TestNamesOfTheSameKey(t *testing.T) {
	type keyed struct {
		By    map[netip.Addr]int `json:"by"`
		Count int                `json:"count"`
		Any   any                `json:"any,omitempty"`
	}
	type ruled struct {
		By    map[netip.Addr]int `json:"by"`
		Count int                `json:"count" minimum:"1"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[keyed](), reflect.TypeFor[ruled]()} {
		s, err := For(typ)
		require.NoError(t, err)
		for _, count := range []string{"1", "1.0"} {
			faults, err := s.Decode(t.Context(), Steps, []byte(`{"by":{"::1":1,"0::1":2},"count":`+count+`}`), reflect.New(typ).Interface())
			require.NoError(t, err)
			require.Len(t, faults, 1, count)
			assert.Equal(t, "/by/0::1: is the same key as another name", faults[0].String())
			faults, err = s.Decode(t.Context(), Steps, []byte(`{"by":{"::1":1,"::2":2},"count":`+count+`}`), reflect.New(typ).Interface())
			require.NoError(t, err)
			require.Empty(t, faults, count)
		}
	}
}

// What is no number of JSON is not read as an integer, although it stands where one may be written as 2.0.
func TestIntegersAreNumbersOfJSON(t *testing.T) {
	type plain struct {
		Count int `json:"count"`
	}
	type preset struct {
		Count int `json:"count"`
		Size  int `json:"size" default:"2"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[plain](), reflect.TypeFor[preset]()} {
		s, err := For(typ)
		require.NoError(t, err)
		for _, count := range []string{"02.0", "+2.0", "2.", "2.e0", ".2e1", "0x2e", "2e", "2e+", "4.0/2", "1_0.0", "2.5", "-0.5", "1e-1"} {
			into := reflect.New(typ)
			faults, err := s.Decode(t.Context(), Steps, []byte(`{"count":`+count+`}`), into.Interface())
			require.NoError(t, err)
			assert.NotEmpty(t, faults, count)
			assert.True(t, into.Elem().IsZero(), count)
		}
	}
}

// picky is a text that its method finds out of range.
type picky struct{}

func (*picky) UnmarshalText([]byte) error { return strconv.ErrRange }

func (picky) MarshalText() ([]byte, error) { return nil, nil }

// A range error of a method is about a text, and hides no other fault.
func TestRangeErrorOfAMethod(t *testing.T) {
	s, err := For(reflect.TypeFor[struct {
		Picky picky     `json:"picky"`
		Other time.Time `json:"other,omitzero"`
	}]())
	require.NoError(t, err)
	text := `{"picky":"` + strings.Repeat("x", someBytes) + `"`
	for end, want := range map[string]string{`}`: "/picky: is not accepted: value out of range", `,"other":"x"}`: "/other: must be a valid date-time"} {
		faults, err := s.Decode(t.Context(), Steps, []byte(text+end), reflect.New(s.target.Elem()).Interface())
		require.NoError(t, err)
		require.Len(t, faults, 1)
		assert.Equal(t, want, faults[0].String())
	}
}

// If a number of a large text is out of the range of its Go type, that is the only fault.
func TestRangeFaultOfLargeText(t *testing.T) {
	type ranged struct {
		Small int8      `json:"small"`
		Text  string    `json:"text"`
		Other time.Time `json:"other"`
	}
	s, err := For(reflect.TypeFor[ranged]())
	require.NoError(t, err)
	for size, want := range map[int][]string{10: {"/other: must be a valid date-time", "/small: must be at most 127"}, someBytes: {"/small: number is out of the range of int8"}} {
		raw := []byte(`{"small":300,"text":"` + strings.Repeat("x", size) + `","other":"x"}`)
		faults, err := s.Decode(t.Context(), Steps, raw, new(ranged))
		require.NoError(t, err)
		var got []string
		for _, f := range faults {
			got = append(got, f.String())
		}
		assert.Equal(t, want, got)
	}
}

// Lists and maps have the same values, and faults at the same places, whether the text is short or long, because they have different decoders.
func TestLongListsAndMaps(t *testing.T) {
	type id int32
	type in struct {
		Bytes  []int8             `json:"bytes,omitempty"`
		Large  []uint64           `json:"large,omitempty"`
		IDs    []id               `json:"ids,omitempty"`
		Rows   [][]int            `json:"rows,omitempty"`
		By     map[string][]int   `json:"by,omitempty"`
		Counts map[string]int     `json:"counts,omitempty"`
		Wide   map[string]int64   `json:"wide,omitempty"`
		Named  map[string]id      `json:"named,omitempty"`
		Texts  map[string]string  `json:"texts,omitempty"`
		Flags  map[string]bool    `json:"flags,omitempty"`
		Floats map[string]float64 `json:"floats,omitempty"`
		Anys   map[string]any     `json:"anys,omitempty"`
		Maybe  map[string]*int    `json:"maybe,omitempty"`
		N      int                `json:"n,omitempty" default:"7"`
		Pad    string             `json:"pad"`
	}
	type ruled struct { // is validated first
		in
		Ruled []int `json:"ruled,omitempty" minItems:"2"`
	}
	type aliased struct {
		in
		Addresses map[netip.Addr]int `json:"addresses,omitempty"`
	}
	values := []string{
		`"bytes":[1.0,-128.0,12.7e1,-0.0]`, `"bytes":[1,128.0]`, `"bytes":[1,1.5]`, `"bytes":[1.0,null]`, `"bytes":[1.0,"2"]`, `"bytes":[[1.0]]`, `"bytes":[ ],"n":2.0`,
		`"large":[18446744073709551615.0,1e19,18446744073709551615]`, `"large":[1.0,1e20]`, `"large":[1.0,-1.0]`, `"large":[1.0,-0]`, `"large":[-0.0]`,
		`"ids":[1.0,2e9,3]`, `"ids":[1e10]`, `"rows":[[1.0],[],[2e0,3]]`, `"rows":[[1.0],[1e99]]`, `"by":{"a":[1.0,2],"b":[3e1]}`, `"by":{"a":[0.1]}`,
		`"bytes":[2.0],"ids":[2.0],"n":3e0,"large":[1]`,
		`"counts":{"a":1.0,"\u0062 ":2e0,"":-3}`, `"counts":{}`, `"counts":{"a":1e19}`, `"counts":{"a/b":1.5}`, `"counts":{"a":null}`, `"counts":{"a":"1"}`, `"counts":[1]`,
		`"wide":{"a":9223372036854775807.0,"b":-9223372036854775808}`, `"wide":{"a":9223372036854775808}`, `"named":{"a":1.0}`,
		`"texts":{"a":"\n","b":""}`, `"texts":{"a":1}`, `"flags":{"a":true,"b":false}`, `"flags":{"a":"true"}`, `"floats":{"a":1,"b":-2.5e3}`, `"floats":{"a":1e400}`, `"floats":{"a":true}`,
		`"anys":{"a":[1,{"b":null}],"c":null}`, `"anys":{"a":1e400}`, `"maybe":{"a":1.0,"b":null}`,
	}
	for typ, more := range map[reflect.Type][]string{
		reflect.TypeFor[in]():      nil,
		reflect.TypeFor[ruled]():   {`"ruled":[1.0,2.0]`, `"ruled":[1.0]`},
		reflect.TypeFor[aliased](): {`"addresses":{"::1":1.0,"::2":2},"counts":{"a":1.0}`, `"addresses":{"::1":1,"0::1":2},"counts":{"a":1.0}`},
	} {
		s, err := For(typ)
		require.NoError(t, err)
		valid := 0
		for _, text := range append(more, values...) {
			decoded := func(pad int) (any, []Fault) {
				into := reflect.New(typ)
				faults, err := s.Decode(t.Context(), Steps, []byte(`{`+text+`,"pad":"`+strings.Repeat("x", pad)+`"}`), into.Interface())
				require.NoError(t, err)
				into.Elem().FieldByName("Pad").SetString("")
				return into.Elem().Interface(), faults
			}
			want, faults := decoded(0)
			for _, pad := range []int{5000, someBytes} {
				got, others := decoded(pad)
				assert.Equal(t, want, got, text)
				if faults != nil { // in large texts a number out of the range of its type has words of its own
					assert.Equal(t, paths(faults), paths(others), text)
				} else {
					assert.Nil(t, others, text)
				}
			}
			if faults == nil {
				valid++
			}
		}
		assert.Greater(t, min(valid, len(values)-valid), 15)
	}
}

func paths(faults []Fault) (all []string) {
	for _, f := range faults {
		all = append(all, f.Path)
	}
	return all
}

// What a form did not ask for is ignored, also in a large answer.
func TestUnknownMembersOfALargeForm(t *testing.T) {
	type form struct {
		Name string `json:"name"`
		N    int    `json:"n"`
	}
	s, err := FormFor(reflect.TypeFor[form]())
	require.NoError(t, err)
	for _, more := range []string{`[]`, `{}`, `[1.0]`, `{"a":1.0}`, `1.0`, `"a"`} {
		for _, pad := range []int{0, someBytes} {
			var got form
			faults, err := s.Decode(t.Context(), Steps, []byte(`{"more":`+more+`,"name":"a","n":2.0,"pad":"`+strings.Repeat("x", pad)+`"}`), &got)
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Equal(t, form{"a", 2}, got)
		}
	}
}
