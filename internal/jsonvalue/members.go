package jsonvalue

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are the names, as they are written in quotes, and the values of a JSON object. They are parts of its text, which must be
// valid; of any other text these are some parts. The plain version is a [jsontext.Decoder], which takes
// nearly twice as long (BenchmarkMembers).
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(quoted, value []byte) bool) {
		i := SkipSpace(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		for i < len(object) && object[i] != '}' {
			name := SkipSpace(object, i+1) // behind the brace or a comma
			end, ok := SkipString(object, name)
			if !ok {
				return
			}
			i = SkipSpace(object, end)
			value := SkipSpace(object, min(i+len(":"), len(object)))
			if i, ok = SkipValue(object, value); !ok || !yield(object[name:end:end], object[value:i:i]) {
				return
			}
			i = SkipSpace(object, i)
		}
	}
}

// Member is the value of the member of a JSON object with a name, nil if there is none. If there are several it is the last, as it is
// for json/v2 if it allows that. It is a part of the text, as for [Members].
func Member(object []byte, name string) (found []byte) {
	for quoted, value := range Members(object) {
		if string(Unquote(quoted)) == name {
			found = value
		}
	}
	return found
}

// Unquote returns the text of a valid JSON string. It aliases it if it has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}
