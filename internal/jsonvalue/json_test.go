package jsonvalue

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

type (
	degree  float64
	percent float32
	angle   float64
)

// String makes percent a type with a method that does not decode it.
func (p percent) String() string { return fmt.Sprintf("%g %%", float32(p)) }

// UnmarshalJSON decodes an angle that is given as a text or a number.
func (a *angle) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*a = angle(2 * f)
	return err
}

// all has the types that this package decodes, and others beside them.
type all struct {
	F64     float64          `json:"f64"`
	F32     float32          `json:"f32"`
	Any     any              `json:"any"`
	Floats  []float64        `json:"floats"`
	Singles []float32        `json:"singles"`
	Ints    []int            `json:"ints"`
	Bytes   []int8           `json:"bytes"`
	Wide    []int64          `json:"wide"`
	Uints   []uint16         `json:"uints"`
	Largest []uint64         `json:"largest"`
	Base64  []byte           `json:"base64"`
	Rows    [][]float64      `json:"rows"`
	By      map[string][]int `json:"by"`
	Pointer *[]float64       `json:"pointer"`
	Many    []*float64       `json:"many"`
	Text    string           `json:"text"`
	Quoted  float64          `json:"quoted,string"`
	Degree  degree           `json:"degree"`
	Degrees []degree         `json:"degrees"`
	Percent []percent        `json:"percent"`
	Angle   angle            `json:"angle"`
	Angles  []angle          `json:"angles"`
	Array   [2]float64       `json:"array"`
	Texts   map[string]string
	Flags   map[string]bool
	By64    map[string]float64
	Anys    map[string]any
}

// Each type is decoded as json/v2 does, and what it cannot hold has the same error.
func TestNumbersAgree(t *testing.T) {
	items := []string{"1", "0", "-1", "-0", "127", "-128", "128", "-129", "65535", "65536", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"18446744073709551615", "18446744073709551616", "1.5", "1e2", "2.0", "7e-320", "1e39", "1e309", "-1e400", "null", `"1"`, `"x"`, "true", "[1]", "{}", "123456789012345678901234567890"}
	random := rand.New(rand.NewPCG(5, 6))
	item := func() string {
		if random.IntN(2) == 0 {
			return fmt.Sprint(random.IntN(100))
		}
		return items[random.IntN(len(items))]
	}
	var values []string
	for range 300 {
		values = append(values, item())
		list := []string{item(), item(), item()}[:random.IntN(4)]
		values = append(values, "["+strings.Join(list, []string{",", " , ", ",\n"}[random.IntN(3)])+"]", `{"a":`+values[len(values)-1]+`}`)
	}
	values = append(values, `{"a":"x","b\u0020":"","a":"y"}`, `{"a":true,"b":false}`, `{"a/b~":1,"b":null,"c":"x"}`, `{"a":{"b":[1]},"b":null}`, "{ }", "[ ]", `["1","2"]`, `"1.5"`, `""`, `[[1],[2,3]]`, `{"a":[1]}`)
	names := reflect.TypeFor[all]()
	good, bad := 0, 0
	for i := range names.NumField() {
		name, _, _ := strings.Cut(names.Field(i).Tag.Get("json"), ",")
		name = cmp.Or(name, names.Field(i).Name)
		for _, value := range values {
			text := fmt.Appendf(nil, `{"text":"x",%q:%s}`, name, value)
			var want, got all
			duplicates := jsontext.AllowDuplicateNames(random.IntN(2) == 0)
			wanted := json.Unmarshal(text, &want, duplicates)
			err := json.Unmarshal(text, &got, duplicates, json.WithUnmarshalers(NamedNumbers))
			require.Equal(t, wanted == nil, err == nil, "%s: %v, not %v", text, err, wanted)
			if wanted == nil {
				require.Equal(t, want, got, "%s", text)
				good++
				continue
			}
			bad++
			a, isA := errors.AsType[*json.SemanticError](wanted)
			b, isB := errors.AsType[*json.SemanticError](err)
			require.Equal(t, isA, isB, "%s: %v, not %v", text, err, wanted)
			if isA {
				require.Equal(t, []any{a.JSONPointer, a.JSONKind, a.GoType, a.Err}, []any{b.JSONPointer, b.JSONKind, b.GoType, b.Err}, "%s: %v, not %v", text, err, wanted)
			}
		}
	}
	require.Greater(t, good, 3000)
	require.Greater(t, bad, 3000)
}

// Only types with floats of other types need the function that is called for each value, and only for costly numbers.
func TestFor(t *testing.T) {
	type tree struct {
		Next []*tree
		Size degree
	}
	type usual struct {
		A map[string][]float64
		B *struct{ C [2]float32 }
	}
	for _, named := range []reflect.Type{reflect.TypeFor[*all](), reflect.TypeFor[map[string]tree]()} {
		require.Same(t, NamedNumbers, For(named, 10, true))
		require.Same(t, Numbers, For(named, long+1, false))
		require.Nil(t, For(named, long, false))
	}
	require.Same(t, Numbers, For(reflect.TypeFor[*usual](), 10, true))
	require.Same(t, Numbers, For(reflect.TypeFor[*usual](), long+1, false))
	require.Nil(t, For(reflect.TypeFor[*usual](), long, false))
}

// Only what json/v2 decodes by a method is left to it.
func TestDecodesItself(t *testing.T) {
	require.True(t, decodesItself(reflect.TypeFor[angle]()))
	require.False(t, decodesItself(reflect.TypeFor[percent]()), "it has another method")
	require.False(t, decodesItself(reflect.TypeFor[degree]()))
}

// Numbers that are in strings are left to json/v2.
func TestNumbersInStrings(t *testing.T) {
	for _, text := range []string{`{"f64":"1.5","floats":["1","2.5"]}`, `{"f64":1.5}`, `{"floats":[1]}`, `{"By64":{"a":"1.5"}}`, `{"By64":{"a":1.5}}`, `{"ints":["1"]}`} {
		var want, got all
		options := json.JoinOptions(json.StringifyNumbers(true), jsontext.AllowDuplicateNames(true))
		wanted := json.Unmarshal([]byte(text), &want, options)
		err := json.Unmarshal([]byte(text), &got, options, json.WithUnmarshalers(WithIntegers(NamedNumbers)))
		require.Equal(t, wanted == nil, err == nil, text)
		require.Equal(t, want, got, text)
	}
}

// A value of the program in a variable of type any is decoded into.
func TestNumbersIntoAValue(t *testing.T) {
	given := new(float64)
	var v any = given
	require.NoError(t, json.Unmarshal([]byte("7e-320"), &v, json.WithUnmarshalers(Numbers)))
	require.Equal(t, 7e-320, *given)
}

// Costly finds numbers that strconv may need long for, wherever they are.
func TestCostly(t *testing.T) {
	many := func(item string) string { return "[" + strings.Repeat(item+",", Few) + item + "]" }
	for _, number := range []string{"7e-320", "-7E-320", "1e31", "1.5e+300", "9007199254740993", "0.00000000000000000001", "1e-0000000031"} {
		require.True(t, Costly([]byte(many(number))), number)
		require.True(t, Costly([]byte(many(`{"a\"": `+number+`}`))), number)
		require.False(t, Costly([]byte(strings.Replace(many(number), number+",", "", 1))), "%s: no more than few", number)
		require.False(t, Costly([]byte(many(`"`+number+`"`))), "%s is a text", number)
		require.False(t, Costly([]byte(many(`"\\\"`+number+`"`))), "%s is a text", number)
	}
	require.False(t, Costly([]byte(many("1e30,1.5,-123456789,true,null"))))
	require.False(t, Costly([]byte(`"`)))
	require.False(t, Costly([]byte(strings.Repeat("[", 100)+`"\`)))
}

// Unmarshal decodes hard numbers, short and long texts.
func TestUnmarshal(t *testing.T) {
	for _, n := range []int{1, 20, 2000} {
		var v struct {
			A []degree
			B any
		}
		list := "[" + strings.TrimSuffix(strings.Repeat("7e-320,", n), ",") + "]"
		require.NoError(t, Unmarshal([]byte(`{"A":`+list+`,"B":1,"B":7e-320}`), &v, jsontext.AllowDuplicateNames(true)))
		require.Len(t, v.A, n)
		require.Equal(t, degree(7e-320), v.A[n-1])
	}
}

// Maps are the same whether their members are collected or not.
func TestLongMaps(t *testing.T) {
	for _, count := range []int{longObject - 1, longObject, longObject + 1, 2*longObject + 1, 5000} {
		members := make([]string, count)
		for i := range members {
			members[i] = fmt.Sprintf(`"m\u0020%d":"%d"`, i, i)
		}
		text := []byte("{" + strings.Join(append(members, members[count-1]), " , ") + "}")
		var want, got map[string]string
		require.NoError(t, json.Unmarshal(text, &want, jsontext.AllowDuplicateNames(true)))
		require.NoError(t, json.Unmarshal(text, &got, jsontext.AllowDuplicateNames(true), json.WithUnmarshalers(Numbers)))
		require.Equal(t, want, got)
		require.Len(t, got, count)
	}
}

func BenchmarkMaps(b *testing.B) {
	type maps struct {
		Texts map[string]string
		Ints  map[string]int
		Lists []map[string]int
	}
	for of, member := range map[string]string{"Texts": `"m%d":""`, "Ints": `"m%d":1`, "Lists": `{"m%d":1}`} {
		var members strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&members, ","+member, i)
		}
		text := []byte(`{"` + of + `":{` + members.String()[1:] + `}}`)
		if of == "Lists" {
			text = []byte(`{"` + of + `":[` + members.String()[1:] + `]}`)
		}
		for name, option := range map[string]json.Options{"json": nil, "here": json.WithUnmarshalers(WithIntegers(Numbers))} {
			b.Run(of+"/by="+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var v maps
					if err := json.Unmarshal(text, &v, jsontext.AllowDuplicateNames(true), option); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkList decodes lists of numbers, by json/v2 and by this package.
func BenchmarkList(b *testing.B) {
	type lists struct {
		Floats []float64
		Ints   []int64
		Named  []degree
	}
	for _, of := range []string{"Floats", "Ints", "Named"} {
		for _, item := range []string{"1", "-0.012345678901234567", "7e-320"} {
			if of == "Ints" && item != "1" {
				continue
			}
			text := []byte(`{"` + of + `":[` + strings.TrimSuffix(strings.Repeat(item+",", 1<<15), ",") + `]}`)
			for name, option := range map[string]json.Options{"json": jsontext.AllowDuplicateNames(true), "here": json.WithUnmarshalers(WithIntegers(NamedNumbers))} {
				b.Run(of+"/"+item+"/by="+name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						var v lists
						if err := json.Unmarshal(text, &v, option); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
