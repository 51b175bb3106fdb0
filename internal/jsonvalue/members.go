package jsonvalue

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are the names, as they are written in quotes, and the values of a JSON object. They are parts of its text, which must be
// valid; of any other text these are some parts. The plain version is a [jsontext.Decoder], which takes twice as long (BenchmarkMembers).
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(quoted, value []byte) bool) {
		r := membersOf(object)
		for quoted, value, ok := r.next(); ok && yield(quoted, value); quoted, value, ok = r.next() {
		}
	}
}

// A memberReader reads the members of an object.
type memberReader struct {
	object []byte
	at     int // a comma, or a brace
}

func membersOf(object []byte) memberReader {
	r := memberReader{object: object, at: SkipSpace(object, 0)}
	if r.at == len(object) || object[r.at] != '{' {
		r.at = len(object)
	}
	return r
}

// next returns the next member, and whether there is one.
func (r *memberReader) next() (quoted, value []byte, ok bool) {
	if r.at == len(r.object) || r.object[r.at] == '}' {
		return nil, nil, false
	}
	name := SkipSpace(r.object, r.at+1)
	end, ok := skipText(r.object, name)
	if !ok {
		return nil, nil, false
	}
	from := SkipSpace(r.object, min(SkipSpace(r.object, end)+len(":"), len(r.object)))
	to, ok := SkipValue(r.object, from)
	r.at = SkipSpace(r.object, to)
	return r.object[name:end:end], r.object[from:to:to], ok
}

// countMembers counts the members of an object, up to so many.
func countMembers(object []byte, most int) (count int) {
	members := membersOf(object)
	for count < most {
		if _, _, ok := members.next(); !ok {
			break
		}
		count++
	}
	return count
}

// Member is the value of the member of a JSON object with a name, nil if there is none. If there are several it is the last;
// json/v2 would put objects together. It is a part of the text, as for [Members].
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
