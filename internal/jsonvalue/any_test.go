package jsonvalue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// looseText returns random JSON, with values that a float64 does not hold and strings that have escapes.
func looseText(rnd *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\n\t"}[rnd.IntN(4)] }
	text := func() string {
		return []string{`""`, `"a"`, `"a/~b"`, `"\u0061\n"`, `"\ud83d\ude00\\"`, `"\\\""`, `"é"`}[rnd.IntN(7)]
	}
	if depth == 0 || rnd.IntN(3) == 0 {
		all := []string{"null", "true", "false", "0", "-0", "1.5e3", "12345678901234567890", "1e-400", text(), text()}
		if rnd.IntN(20) == 0 {
			all = []string{"1e400", "-1e999"}
		}
		return all[rnd.IntN(len(all))]
	}
	var items []string
	list := rnd.IntN(2) == 0
	for i := range rnd.IntN(4) {
		item := looseText(rnd, depth-1)
		if !list {
			item = fmt.Sprintf(`"%d%s%s:%s%s`, i, text()[1:], space(), space(), item)
		}
		items = append(items, space()+item+space())
	}
	if list {
		return "[" + strings.Join(items, ",") + space() + "]"
	}
	return "{" + strings.Join(items, ",") + space() + "}"
}

// TestDecodeAnyAgrees compares values of type any, and the faults of texts that no such value holds, with those of json/v2.
func TestDecodeAnyAgrees(t *testing.T) {
	type holder struct {
		Any  any            `json:"any"`
		Many []any          `json:"many"`
		By   map[string]any `json:"by"`
	}
	rnd, faults := rand.New(rand.NewPCG(1, 23)), 0
	for range 20_000 {
		text := fmt.Sprintf(`{"many":[%s, 1],"by":{"~/":%s},"any" : %s }`, looseText(rnd, 2), looseText(rnd, 2), looseText(rnd, 4))
		var want, got holder
		wantErr, err := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got, duplicates, json.WithUnmarshalers(Any))
		if wantErr == nil {
			require.NoError(t, err, text)
			require.Equal(t, want, got, text)
			continue
		}
		faults++
		wanted, _ := errors.AsType[*json.SemanticError](wantErr)
		fault, ok := errors.AsType[*json.SemanticError](err)
		require.True(t, ok, "%s: %v", text, err)
		require.Equal(t, wanted.JSONPointer, fault.JSONPointer, text)
		require.Equal(t, wanted.JSONKind, fault.JSONKind)
		require.Equal(t, wanted.JSONValue, fault.JSONValue)
		require.Equal(t, wanted.GoType, fault.GoType)
		require.Equal(t, wanted.Err, fault.Err)
	}
	require.Greater(t, faults, 1000)
}

// A long list is read in parts.
func TestDecodeAnyOfLongLists(t *testing.T) {
	for _, count := range []int{longList - 1, longList, longList + 1, 5119, 5120, 5121, 5120 + longList/4, 5121 + longList/4, 3*longList + 5} {
		items := make([]any, count)
		for i := range items {
			items[i] = []any{float64(i), strconv.Itoa(i)}
		}
		text, err := json.Marshal(items)
		require.NoError(t, err)
		var got any
		require.NoError(t, json.Unmarshal(text, &got, json.WithUnmarshalers(Any)))
		require.Equal(t, any(items), got)

		wrong := append(text[:len(text)-1], ",[1,1e400]]"...)
		fault, ok := errors.AsType[*json.SemanticError](json.Unmarshal(wrong, new(any), json.WithUnmarshalers(Any)))
		require.True(t, ok)
		require.Equal(t, jsontext.Pointer(fmt.Sprintf("/%d/1", count)), fault.JSONPointer)
	}
}

// Short lists of one item share an array. An append to one does not write into another, and a program that keeps one does not keep
// long ones.
func TestDecodeAnyListsAreApart(t *testing.T) {
	decoded := func(text string) []any {
		var lists any
		require.NoError(t, json.Unmarshal([]byte(text), &lists, json.WithUnmarshalers(Any)))
		return lists.([]any)
	}
	lists := decoded(`[[1],[2],[],[3],[[4]]]`)
	for _, list := range lists {
		_ = append(list.([]any), "another item")
	}
	require.Equal(t, []any{[]any{1.0}, []any{2.0}, []any{}, []any{3.0}, []any{[]any{4.0}}}, lists)

	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const size = 1 << 20
	before := inUse()
	kept := decoded("[" + strings.Repeat(`[1],["`+strings.Repeat("x", size)+`"],`, 20) + "0]")[10]
	require.Less(t, inUse(), before+size)
	require.Equal(t, []any{1.0}, kept)
}

// A program's value in a variable of type any is decoded into, as json/v2 does.
func TestDecodeAnyIntoAValue(t *testing.T) {
	given := &struct{ A int }{}
	var v any = given
	require.NoError(t, json.Unmarshal([]byte(`{"A":3}`), &v, duplicates, json.WithUnmarshalers(Any)))
	require.Equal(t, 3, given.A)
}

// duplicates is what Decode says of a text that is validated.
var duplicates = jsontext.AllowDuplicateNames(true)

func BenchmarkDecodeAny(b *testing.B) {
	text := []byte("[" + strings.Repeat("[[[[[[[[]]]]]]]],", 3000) + "1]")
	for name, option := range map[string]json.Options{"plain": duplicates, "any": json.JoinOptions(duplicates, json.WithUnmarshalers(Any))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for range b.N {
				var v any
				if err := json.Unmarshal(text, &v, option); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
