package schema

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A wideRow takes much more memory than "{}".
type wideRow struct {
	A string   `json:"a,omitempty"`
	B string   `json:"b,omitempty"`
	C string   `json:"c,omitempty"`
	D string   `json:"d,omitempty"`
	E []string `json:"e,omitempty"`
	F []string `json:"f,omitempty"`
	G float64  `json:"g,omitempty"`
	H int64    `json:"h,omitempty"`
}

type wideRows struct {
	Rows []wideRow `json:"rows"`
}

type presetRows struct {
	Rows []struct {
		Text string `json:"text" default:"a text that stands for a member that is missing, and is long"`
	} `json:"rows"`
}

// A WideBase is embedded.
type WideBase struct {
	Wide [32]int `json:"wide"`
	Text string  `json:"text"`
}

// An OuterBase embeds what it points to.
type OuterBase struct{ *WideBase }

// Of plainRows and taggedRows, embedded side by side, the tag decides.
type plainRows struct{ Rows int }

type taggedRows struct {
	Wide []wideRow `json:"Rows"`
}

// A presetBase has a default, and is embedded.
type presetBase struct {
	N int8 `json:"n" default:"7"`
}

// filled returns {"name":[item,item,...]} of a frame.
func filled(name, item string) jsontext.Value {
	return repeated(`{"`+name+`":[`, same(item), "]}", frame)
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A text that becomes a much larger Go value is refused before it is decoded.
func TestTextThatGrowsIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		into any
		text jsontext.Value
	}{
		{"objects", new(wideRows), filled("rows", "{}")},
		{"pointers", new(struct {
			Rows []*wideRow `json:"rows"`
		}), filled("rows", "{}")},
		{"arrays", new(struct {
			Rows [][64]int `json:"rows"`
		}), filled("rows", "[]")},
		{"maps", new(struct {
			Rows []map[string]int `json:"rows"`
		}), filled("rows", `{"a":1}`)},
		{"anything", new(struct {
			Rows any `json:"rows"`
		}), filled("rows", `{"a":1}`)},
		{"defaults", new(presetRows), filled("rows", "{}")},
		{"defaults of what is embedded", new(struct {
			Rows []struct{ presetBase } `json:"rows"`
		}), filled("rows", "{}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := For(reflect.TypeOf(c.into).Elem())
			require.NoError(t, err)
			v, reached := newValidator(Steps, 16<<20)
			took := allocated(func() { _, _, err = v.DecodeFor(t.Context(), senders(1)[0], s, 0, c.text, c.into) })
			require.LessOrEqual(t, took, 1<<20)
			var answer *mcp.Error
			require.ErrorAs(t, err, &answer)
			require.Contains(t, answer.Message, "max_argument_bytes")
			require.Equal(t, mcp.ErrorData{Limit: limits.NameArgumentBytes}, answer.Data)
			require.Equal(t, []string{limits.NameArgumentBytes}, reached())
		})
	}
}

type table struct {
	Rows []struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
		OK   bool   `json:"ok"`
	} `json:"rows"`
}

var tableText = jsontext.Value(repeated(`{"rows":[`, func(i int) string { return fmt.Sprintf(`{"id":%d,"name":"row %d","ok":true}`, i, i) }, "]}", frame))

// Large values that people send are decoded.
func TestLargeValuesAreDecoded(t *testing.T) {
	for _, c := range []struct {
		name string
		into any
		text jsontext.Value
	}{
		{"numbers", new(struct {
			Rows []float64 `json:"rows"`
		}), filled("rows", "1")},
		{"embeddings", new(struct {
			Rows [][]float32 `json:"rows"`
		}), repeated(`{"rows":[[`, func(i int) string {
			if i%1000 == 999 {
				return "0.123456789],[0.1"
			}
			return "-0.12345678"
		}, "]]}", frame)},
		{"words", new(struct {
			Rows []string `json:"rows"`
		}), filled("rows", `"word"`)},
		{"a table", new(table), tableText},
		{"a table of anything", new(struct {
			Rows any `json:"rows"`
		}), tableText},
		{"a text", new(struct {
			Rows []string `json:"rows"`
		}), filled("rows", `"`+strings.Repeat("x", 1<<20)+`"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := For(reflect.TypeOf(c.into).Elem())
			require.NoError(t, err)
			v, _ := newValidator(Steps, 16<<20)
			_, faults, err := v.DecodeFor(t.Context(), senders(1)[0], s, 0, c.text, c.into)
			require.NoError(t, err)
			require.Empty(t, faults)
		})
	}
}

// held returns what a decoded value holds.
func held(t *testing.T, text []byte, into any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	require.NoError(t, jsonv2.Unmarshal(text, into))
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(into)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// The estimate is at least what the value takes, and the estimate for each byte of text at least the estimate.
func TestEstimateIsAnUpperBound(t *testing.T) {
	type nested struct {
		Rows []struct {
			Wide *wideRow              `json:"wide,omitempty"`
			More map[string][]*wideRow `json:"more,omitempty"`
			At   time.Time             `json:"at,omitzero"`
		} `json:"rows"`
	}
	const size = 1 << 20
	for _, c := range []struct {
		into any
		item string
	}{
		{new(wideRows), "{}"}, {new(wideRows), `{"e":["a","b"]}`}, {new(wideRows), `{"e":[],"a":"bc"}`},
		{new(struct {
			Rows []*wideRow `json:"rows"`
		}), `{"h":1}`},
		{new(struct {
			Rows []any `json:"rows"`
		}), `{"a":1}`},
		{new(struct {
			Rows any `json:"rows"`
		}), `{"":{"":{"":{"":[]}}}}`},
		{new(struct {
			Rows any `json:"rows"`
		}), `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`},
		{new(struct {
			Rows []map[string]string `json:"rows"`
		}), `{"a":""}`},
		{new(struct {
			Rows []map[string]bool `json:"rows"`
		}), `{"a":true}`},
		{new(struct {
			Rows []jsontext.Value `json:"rows"`
		}), `1`},
		{new(struct {
			Rows [][]byte `json:"rows"`
		}), `"YQ=="`},
		{new(struct {
			Rows []struct{ OuterBase } `json:"rows"`
		}), `{"text":""}`},
		{new(struct {
			Rows []struct {
				Base *OuterBase `json:",embed"`
			} `json:"rows"`
		}), `{"text":""}`},
		{new(struct {
			Rows []struct {
				Base *struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P int64 } `json:"a-b_c-d-e-f-g-h,case:ignore"`
			} `json:"rows"`
		}), `{"ABCDEFGH":{}}`},
		{new(struct {
			Rows []struct {
				Rest map[string]WideBase `json:",embed"`
			} `json:"rows"`
		}), `{"a":{}}`},
		{new(struct {
			Rows []***int64 `json:"rows"`
		}), `1`},
		{new(struct {
			Rows []struct {
				plainRows
				taggedRows
			} `json:"rows"`
		}), `{"Rows":[{},{}]}`},
		{new(nested), `{"wide":{},"more":{"a":[{},{}]},"at":"2026-01-02T03:04:05+01:07"}`},
	} {
		text := repeated(`{"rows":[`, same(c.item), "]}", size)
		e := extentOf(reflect.TypeOf(c.into).Elem())
		w := weighing{text: text, left: math.MaxInt}
		w.value(e)
		estimate := math.MaxInt - w.left
		require.Equal(t, len(text), w.at)
		require.LessOrEqual(t, float64(estimate), e.rate*float64(len(text))+float64(e.fixed), "%T %s", c.into, c.item)
		require.LessOrEqual(t, held(t, text, c.into), estimate+size/16, "%T %s", c.into, c.item)

		bytes, fits := e.weigh(text, math.MaxInt, roughly)
		require.True(t, fits)
		require.Equal(t, estimate+e.size, bytes, "with the variable")
		_, fits = e.weigh(text, bytes-1, roughly)
		require.False(t, fits)
	}
}

// What is collected while a long map is decoded counts as well: nearly all that is allocated for one is in memory at its end.
func TestEstimateOfLongMaps(t *testing.T) {
	for _, c := range []struct {
		into  any
		value string
	}{
		{new(map[string]int), "0"}, {new(map[string]string), `""`}, {new(map[string]float64), "1.5"}, {new(map[string]any), "0"}, {new(map[string]any), "0.5"},
		{new(any), "0"}, {new(any), `""`},
	} {
		for _, count := range []int{1025, 2000, 60_000, 100_000, 114_600, 115_000, 229_000} { // some of them nearly fill their tables, or need a few more
			text := []byte{'{'}
			for i := range count {
				text = fmt.Appendf(text, "%q:%s,", strconv.FormatInt(int64(i+1<<20), 36), c.value)
			}
			text[len(text)-1] = '}'
			w := weighing{text: text, left: math.MaxInt}
			w.value(extentOf(reflect.TypeOf(c.into).Elem()))
			estimate := math.MaxInt - w.left
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			into := reflect.New(reflect.TypeOf(c.into).Elem()).Interface()
			require.NoError(t, jsonv2.Unmarshal(text, into, jsontext.AllowDuplicateNames(true), jsonv2.WithUnmarshalers(jsonvalue.WithIntegers(jsonvalue.Numbers))))
			runtime.ReadMemStats(&after)
			took := int(after.TotalAlloc - before.TotalAlloc)
			require.LessOrEqual(t, took, estimate+100<<10, "%T %s %d", c.into, c.value, count)
			require.Less(t, estimate, 2*took, "%T %s %d", c.into, c.value, count)
		}
	}
}

// What can take no more than a few KiB is told by the length of its text, so that small calls need no second look at theirs.
func TestSmallTextsAreWeighedByTheirLength(t *testing.T) {
	anys := extentOf(reflect.TypeFor[struct {
		Any any `json:"any"`
	}]())
	few, fits := anys.weigh([]byte(`{"any":"`+strings.Repeat("x", 300)+`"}`), 1<<20, roughly)
	require.True(t, fits)
	require.Greater(t, few, 300*anyRate, "an upper bound")
	more, fits := anys.weigh([]byte(`{"any":"`+strings.Repeat("x", 400)+`"}`), 1<<20, roughly)
	require.True(t, fits)
	require.InDelta(t, 400, more, 100, "weighed")
}

// Lists of numbers are weighed by counting, as the others are item by item.
func TestNumbersAreCounted(t *testing.T) {
	floats := extentOf(reflect.TypeFor[[]float64]())
	for text, count := range map[string]int{
		"[]": 0, "[ ]": 0, "[1]": 1, " [1 , -2.5e3]": 2, "[1,2,3]": 3, "[null,1]": 2, "[[1,2],3]": 2, `[{"a":1,"b":2}]`: 1, "[1,2": 2,
		`[1,"x",2]`: 3, `["],[\\"",1]`: 2, `[true,{"]":[1,2]},3]`: 3,
	} {
		w := weighing{text: []byte(text), left: 1000}
		w.value(floats)
		require.Equal(t, 1000-count*floats.elem.inList(), w.left, text)
		require.Equal(t, len(text), w.at, text)
	}
	type preset struct {
		A int `json:"a" default:"7"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[[]*float64](), reflect.TypeFor[[][]float64](), reflect.TypeFor[[]preset]()} {
		e := extentOf(typ)
		w := weighing{text: []byte("[[1],{}]"), left: 1000}
		w.value(e)
		require.Less(t, w.left, 1000-2*e.elem.inList(), "%v: what the items need beside their variables", typ)
	}
}
