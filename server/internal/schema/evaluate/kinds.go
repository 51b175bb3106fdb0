package evaluate

// kinds is a set of JSON types. The bit of integers is for type alone: a value is a number, and
// then it may be an integer.
type kinds uint8

const (
	nullKind kinds = 1 << iota
	booleanKind
	numberKind
	integerKind
	stringKind
	arrayKind
	objectKind
)

// kindsOf has the type of a value by the first byte of its text.
var kindsOf = [256]kinds{
	'n': nullKind, 't': booleanKind, 'f': booleanKind, '"': stringKind, '[': arrayKind, '{': objectKind,
	'-': numberKind, '0': numberKind, '1': numberKind, '2': numberKind, '3': numberKind, '4': numberKind,
	'5': numberKind, '6': numberKind, '7': numberKind, '8': numberKind, '9': numberKind,
}

var kindNames = []struct {
	name string
	kinds
}{
	{"null", nullKind}, {"boolean", booleanKind}, {"number", numberKind}, {"integer", integerKind},
	{"string", stringKind}, {"array", arrayKind}, {"object", objectKind},
}

func kindNamed(name string) kinds {
	for _, k := range kindNames {
		if k.name == name {
			return k.kinds
		}
	}
	return 0
}

// String names one type.
func (k kinds) String() string {
	for _, n := range kindNames {
		if n.kinds == k {
			return n.name
		}
	}
	return ""
}
