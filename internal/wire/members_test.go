package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// membersOf collects what Members visits: names and values in turn.
func membersOf(text []byte) (all []string, ok bool) {
	ok = Members(text, func(name, value jsontext.Value) bool {
		all = append(all, string(name), string(value))
		return true
	})
	return all, ok
}

// Pick takes what is wanted, whichever way its name is written, and keeps nothing of the rest.
func TestPick(t *testing.T) {
	text := []byte(` {"a":1,"\u0062" : {"x":[2]},"c":3} `)
	picked, count := Pick(text, func(name []byte) bool { return string(name) != "c" })
	require.Equal(t, map[string]jsontext.Value{"a": jsontext.Value("1"), "b": jsontext.Value(`{"x":[2]}`)}, picked)
	require.Equal(t, 3, count)
	clear(text)
	require.Equal(t, `{"x":[2]}`, string(picked["b"]), "it is a copy")
	for _, none := range []string{"", "null", "[1]", "{}"} {
		picked, count = Pick([]byte(none), func([]byte) bool { return true })
		require.Empty(t, picked)
		require.Zero(t, count)
	}

	var large []byte
	for i := range 100_000 {
		large = fmt.Appendf(large, `,"m%d":0`, i)
	}
	large = append(append([]byte("{"), large[1:]...), '}')
	took := testing.AllocsPerRun(3, func() { Pick(large, func(name []byte) bool { return string(name) == "m7" }) })
	require.Less(t, took, 100.)
}

// decodedMembers is what membersOf should return, from a decoder.
func decodedMembers(text []byte) (all []string, ok bool) {
	if v := jsontext.Value(text); !v.IsValid() || v.Kind() != '{' {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	if _, err := dec.ReadToken(); err != nil {
		return nil, false
	}
	for dec.PeekKind() != '}' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		all = append(all, string(v))
	}
	return all, true
}

// Members accepts what a decoder accepts, and finds the same members.
func TestMembersAgreeWithTheDecoder(t *testing.T) {
	texts := oracleFrames()
	random := randomJSON{rand.New(rand.NewPCG(3, 4))}
	for range 5_000 {
		text := random.object(nil, 0, noField)
		if random.IntN(2) == 0 {
			text[random.IntN(len(text))] = "\"\\{}[]:,0e \x00"[random.IntN(12)]
		}
		texts = append(texts, text)
	}
	const message = ` {"a":1 , "\u0061b":[true,null,"é"],"c":{"d":{}}} `
	for i := range len(message) {
		for _, c := range []byte("\"\\{}[]:,-+.0eE \n\x00\x1fxut/\x80\xc3") {
			texts = append(texts, slices.Insert([]byte(message), i, c), slices.Delete([]byte(message), i, i+1), []byte(message[:i]))
		}
	}
	accepted := 0
	for _, text := range texts {
		want, valid := decodedMembers(text)
		got, ok := membersOf(text)
		require.Equal(t, valid, ok, "%q", text)
		if ok {
			accepted++
			require.Equal(t, want, got, "%q", text)
		}
	}
	require.Greater(t, accepted, 2000)
}

// A value that is nested too deeply is refused, and a visit that returns false ends it.
func TestMembersEndEarly(t *testing.T) {
	for levels, want := range map[int]bool{maxNesting - 1: true, maxNesting: false} {
		_, ok := membersOf([]byte(`{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`))
		require.Equal(t, want, ok, levels)
	}
	visited := 0
	require.False(t, Members([]byte(`{"a":1,"b":2}`), func(_, _ jsontext.Value) bool {
		visited++
		return false
	}))
	require.Equal(t, 1, visited)
}

// BenchmarkMembers compares it with the decoder that it replaces.
func BenchmarkMembers(b *testing.B) {
	text := []byte(`{"amount": 900, "to": "DE02120300000000202051", "text": "invoice 1234"}`)
	b.Run("scanner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			Members(text, func(_, value jsontext.Value) bool { n += len(value); return true })
		}
	})
	b.Run("jsontext.Decoder", func(b *testing.B) {
		b.ReportAllocs()
		var dec jsontext.Decoder
		for b.Loop() {
			dec.Reset(bytes.NewBuffer(text))
			_, _ = dec.ReadToken()
			for dec.PeekKind() != '}' {
				_, _ = dec.ReadValue()
			}
		}
	})
}
