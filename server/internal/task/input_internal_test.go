package task

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// A store may write answers in its own form. A question is not left without an answer for that.
func TestAnswersAreTheSameInAnyForm(t *testing.T) {
	const answer = `{"action":"accept","content":{"name":"Ada","age":36}}`
	for other, same := range map[string]bool{
		answer: true,
		` { "content" : { "age" : 36.0, "name" : "\u0041da" }, "action" : "accept" } `: true,
		`{"a":1,"a":2}`:                true, // it cannot be compared
		`{"action":"decline"}`:         false,
		answer[:len(answer)-3] + `7}}`: false,
	} {
		require.Equal(t, same, sameAnswer(jsontext.Value(answer), jsontext.Value(other)), other)
		require.Equal(t, same, sameAnswer(jsontext.Value(other), jsontext.Value(answer)), other)
	}
}
