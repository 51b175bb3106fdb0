package jsonvalue

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// The members of an object are those that a decoder finds.
func TestMembers(t *testing.T) {
	for _, object := range []string{
		`{}`, ` { } `, `{"a":1}`, ` { "a" : [1,{"b":"]}"},"\\\""] , "\u0062\"" : {"c":{}} ,"":"","d":null } `, "\n{\"a\":-1.5e3\t,\"a\":true}",
	} {
		var want, got []string
		dec := jsontext.NewDecoder(bytes.NewBufferString(object), jsontext.AllowDuplicateNames(true))
		_, err := dec.ReadToken()
		require.NoError(t, err)
		for dec.PeekKind() != '}' {
			value, err := dec.ReadValue()
			require.NoError(t, err)
			want = append(want, string(value))
		}
		for name, value := range Members([]byte(object)) {
			got = append(got, string(name), string(value))
		}
		require.Equal(t, want, got, object)
	}
	for range Members([]byte(`{"a":1,"b":2}`)) {
		break // the iterator ends
	}
}

// What is no object has no members that a caller could stumble over, wherever it ends.
func TestMembersOfOtherTexts(t *testing.T) {
	const object = ` {"a\"" : [1,{"b":"]}"}],"c":{"d":null}} `
	for end := range object {
		for i := range end {
			for name, value := range Members([]byte(object[i:end])) {
				require.NotEmpty(t, value)
				_ = Unquote(name)
			}
		}
	}
	for _, text := range []string{"", "null", `["a",1]`, `"a"`, "{]", `{"a"}`, "{{"} {
		for name := range Members([]byte(text)) {
			t.Errorf("%s has %s", text, name)
		}
	}
}

func TestMember(t *testing.T) {
	object := []byte(`{"a":1,"\u0062":[2],"a":"\"3"}`)
	require.Equal(t, `"\"3"`, string(Member(object, "a")), "the last one")
	require.Equal(t, "[2]", string(Member(object, "b")))
	require.Nil(t, Member(object, "c"))
	require.Nil(t, Member(nil, "a"))
}

func BenchmarkMembers(b *testing.B) {
	object := []byte("{")
	for i := range 100_000 {
		object = append(append(append(object, `"m`...), strconv.Itoa(i)...), `":[0,"a"],`...)
	}
	object = append(object, `"last":1}`...)
	b.Run("by=decoder", func(b *testing.B) {
		for b.Loop() {
			dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))
			_, err := dec.ReadToken()
			for err == nil && dec.PeekKind() != '}' {
				_, err = dec.ReadValue()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=members", func(b *testing.B) {
		for b.Loop() {
			for range Members(object) {
			}
		}
	})
}
