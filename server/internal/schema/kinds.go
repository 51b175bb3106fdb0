package schema

import (
	"reflect"
	"strings"
)

// kinds is a set of JSON types. A number has the bits of integers and of fractions.
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

// goKinds returns the JSON types of the values of a Go type except null, and 0 if they are
// unknown. t must not be a pointer.
func goKinds(t reflect.Type) kinds {
	switch shapeKindOf(t) {
	case text, instant:
		return stringKind
	case integer:
		return integerKind
	case list:
		return arrayKind
	case dict, record:
		return objectKind
	case scalar:
		switch t.Kind() {
		case reflect.Bool:
			return booleanKind
		case reflect.String:
			return stringKind
		}
		return numberKind
	}
	return 0
}
