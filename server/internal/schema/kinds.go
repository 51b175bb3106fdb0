package schema

import (
	"encoding/json" // for Number, which is how the validator has numbers
	"reflect"
	"slices"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// kinds are JSON types that a value may have. A number may be an integer, so that both
// bits stand for it.
type kinds uint8

const (
	nullKind kinds = 1 << iota
	booleanKind
	integerKind
	fractionKind
	stringKind
	arrayKind
	objectKind
	allKinds   = 1<<iota - 1
	numberKind = integerKind | fractionKind
)

var kindNames = []struct {
	name string
	kinds
}{
	{"null", nullKind}, {"boolean", booleanKind}, {"number", numberKind}, {"integer", integerKind},
	{"string", stringKind}, {"array", arrayKind}, {"object", objectKind},
}

// String names the types, as in "string or null".
func (k kinds) String() string {
	if k&allKinds == 0 {
		return "no type"
	}
	var names []string
	for _, n := range kindNames {
		if k&n.kinds == n.kinds {
			names = append(names, n.name)
			k &^= n.kinds
		}
	}
	return strings.Join(names, " or ")
}

// goKinds are the JSON types of the values of a Go type, but for null; 0 for a type of
// which nothing is known. t is no pointer.
func goKinds(t reflect.Type) kinds {
	switch {
	case t == timeType:
		return stringKind
	case t == durationType, implements(t, jsonMethods):
		return 0
	case implements(t, textMarshalers), implements(t, textUnmarshaler):
		return stringKind
	}
	switch t.Kind() {
	case reflect.Bool:
		return booleanKind
	case reflect.String:
		return stringKind
	case reflect.Slice, reflect.Array:
		if isBytes(t) {
			return stringKind
		}
		return arrayKind
	case reflect.Map, reflect.Struct:
		return objectKind
	case reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return 0
	case reflect.Float32, reflect.Float64:
		return numberKind
	}
	return integerKind
}

// deref follows pointers.
func deref(t reflect.Type) reflect.Type {
	for n := 0; t.Kind() == reflect.Pointer && n < maxPointers; n++ {
		t = t.Elem()
	}
	return t
}

// kinds are the JSON types that flat nodes allow. Alternatives count only if nothing else
// is known of the value, and then together.
func (n nodes) kinds() kinds {
	k, some := kinds(allKinds), kinds(0)
	for _, s := range n.must {
		k &= kindsOf(s, nil)
	}
	if len(n.must) > 0 || len(n.may) == 0 {
		return k
	}
	for _, s := range n.may {
		some |= kindsOf(s, nil)
	}
	return some
}

// kindsOf are the JSON types that a schema allows. inside are the schemas that led here.
func kindsOf(s *jsv.Schema, inside []*jsv.Schema) kinds {
	if s == nil || slices.Contains(inside, s) {
		return allKinds
	}
	if s.Bool != nil && !*s.Bool {
		return 0
	}
	inside = append(inside, s)
	k := kinds(allKinds)
	if s.Types != nil {
		k = 0
		for _, name := range s.Types.ToStrings() {
			for _, n := range kindNames {
				if n.name == name {
					k |= n.kinds
				}
			}
		}
	}
	if s.Const != nil {
		k &= kindOfValue(*s.Const)
	}
	if s.Enum != nil {
		var some kinds
		for _, v := range s.Enum.Values {
			some |= kindOfValue(v)
		}
		k &= some
	}
	for _, all := range append([]*jsv.Schema{s.Ref, s.RecursiveRef, dynamic(s)}, s.AllOf...) {
		k &= kindsOf(all, inside)
	}
	for _, alternatives := range [][]*jsv.Schema{s.AnyOf, s.OneOf} {
		if len(alternatives) == 0 {
			continue
		}
		var some kinds
		for _, one := range alternatives {
			some |= kindsOf(one, inside)
		}
		k &= some
	}
	return k
}

func kindOfValue(v any) kinds {
	switch v.(type) {
	case nil:
		return nullKind
	case bool:
		return booleanKind
	case string:
		return stringKind
	case []any:
		return arrayKind
	case map[string]any:
		return objectKind
	case json.Number:
		return numberKind
	}
	return allKinds
}
