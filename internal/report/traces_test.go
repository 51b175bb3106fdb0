package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list has the size of an answer.
func TestListHasTheBytesOfAnswers(t *testing.T) {
	page, text := Traces{Traces: []Trace{{Class: "recent", AnswerBytes: 7168}, {Class: "rejected"}}}, strings.Builder{}
	page.WriteText(&text)
	require.Regexp(t, `TOOK +ANSWER BYTES +CLASS .*\n.* 0s +7168 +recent .*\n.* 0s +- +rejected `, text.String())
}

// The list has the words of an error beside its kind, and not all of a long text.
func TestListSaysWhyInShort(t *testing.T) {
	for want, row := range map[string]Trace{
		"tool_error":                              {ToolError: true},
		"tool_error: connection refused":          {ToolError: true, Error: "connection refused"},
		"arguments rejected: /n: is missing":      {ToolError: true, ArgumentFaults: "/n: is missing"},
		"refused: this needs the scopes shop":     {RejectReason: "refused", ErrorCode: -32003, ErrorMessage: "this needs the scopes shop"},
		"refused: not on Sundays":                 {RejectReason: "refused", ErrorMessage: "no", DecisionReason: "not on Sundays"},
		"boom":                                    {Panic: "boom", ErrorCode: -32603, ErrorMessage: "internal error"},
		"-32603 internal error: the disk is full": {ErrorCode: -32603, ErrorMessage: "internal error", Error: "the disk is full"},
		"-32602 no such order":                    {ErrorCode: -32602, ErrorMessage: "no such order", Error: "no such order"},
		"client_cancel: user pressed stop":        {CancelCause: "client_cancel", CancelDetail: "user pressed stop", Error: "context canceled"},
		"deadline: it took longer than 500ms":     {CancelCause: "deadline", ErrorCode: -32001, ErrorMessage: "it took longer than 500ms"},
		"write_timeout":                           {DropReason: "write_timeout", Error: "late"},
		"":                                        {Error: ""},
		"tool_error: " + strings.Repeat("é", 107) + "…": {ToolError: true, Error: strings.Repeat("é", 200)},
	} {
		page, text := Traces{Traces: []Trace{row}}, &strings.Builder{}
		page.WriteText(text)
		require.Regexp(t, `WHY +TRACE\n.* - +`+strings.NewReplacer(".", `\.`).Replace(dash(want))+` +-\n$`, text.String())
	}
}
