package ask

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	// maxMalformed is how many malformed answers to one question, one after the other, end its request.
	maxMalformed = 3
	// maxFault bounds what is said of one malformed answer, in bytes.
	maxFault = 512
	// maxMalformedLines is how many malformed answers are logged in a second.
	maxMalformedLines = 32
)

// malformedAnswers counts the malformed answers to the questions of one call.
type malformedAnswers struct {
	counts map[string]malformedCount // by the key of the question
	last   malformedError            // of this run of the handler
}

// A malformedCount is how many answers to a question were malformed, one after the other.
type malformedCount struct {
	asked digest
	n     int
}

// add counts a malformed answer to a question. It returns how many there were, one after the other.
func (m *malformedAnswers) add(key string, asked digest, fault string) (inARow int) {
	count := m.counts[key]
	if string(count.asked) != string(asked) { // the question has changed
		count = malformedCount{asked: asked}
	}
	count.n++
	m.load(key, count)
	if count.n >= m.last.inARow {
		m.last = malformedError{key, fault, count.n}
	}
	return count.n
}

// load notes a count of an earlier round.
func (m *malformedAnswers) load(key string, count malformedCount) {
	if m.counts == nil {
		m.counts = map[string]malformedCount{}
	}
	m.counts[key] = count
}

// endRun ends a run of the handler. It returns the malformed answer of the question that had most, or a zero value if this run has
// seen none.
func (m *malformedAnswers) endRun() (last malformedError) {
	last, m.last = m.last, malformedError{}
	return last
}

// of returns the counts of questions by their keys; nil if all of them are 0.
func (m *malformedAnswers) of(asked map[string]digest) (counts map[string]int) {
	for key, d := range asked {
		if count := m.counts[key]; count.n > 0 && string(count.asked) == string(d) {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[key] = count.n
		}
	}
	return counts
}

// A malformedError says that answers to a question were malformed, and what is wrong with the last one.
type malformedError struct {
	key, fault string
	inARow     int
}

func (e malformedError) Error() string {
	if e.inARow >= maxMalformed {
		return fmt.Sprintf("%d answers to the question %q were malformed, one after the other; of the last one: %s", e.inARow, e.key, e.fault)
	}
	return fmt.Sprintf("the last answer to the question %q is malformed: %s", e.key, e.fault)
}

// An answerFault is what is wrong with an answer.
type answerFault struct {
	text     string // may repeat parts of the answer
	discreet string // text without these parts; "" if text has none
}

func (f answerFault) Error() string { return f.text }

// faultOf returns what an error of [Question.Check] says about an answer, without parts of the answer: it may be a secret of the user.
func faultOf(err error) string {
	text := "it cannot be decoded"
	if f, ok := errors.AsType[answerFault](err); ok {
		text = cmp.Or(f.discreet, f.text)
	} else if rpc, ok := mcp.AsError(err); ok && ofALimit(rpc) {
		text = rpc.Message
	} else if semantic, ok := errors.AsType[*json.SemanticError](err); ok && kinds[semantic.JSONKind] != "" && semantic.GoType != nil {
		text = fmt.Sprintf("%s cannot be decoded as %v", kinds[semantic.JSONKind], semantic.GoType)
	}
	return logline.Printable(text, maxFault)
}

// ofALimit reports whether an error is about a limit. Errors of the program may repeat parts of the answer.
func ofALimit(err *mcp.Error) bool {
	data, _ := err.Data.(mcp.ErrorData)
	return data.Limit != ""
}

// kinds are the words for the kinds of JSON values.
var kinds = map[jsontext.Kind]string{
	'n': "null", 't': "a JSON boolean", 'f': "a JSON boolean", '0': "a JSON number", '"': "a JSON string", '[': "a JSON array", '{': "a JSON object",
}

// logMalformed logs a malformed answer.
func (c *Call) logMalformed(key, fault string, inARow int) {
	a := c.Asker
	if ok, silenced := a.lines.AllowSome(maxMalformedLines, "answer.malformed", "", time.Now()); ok {
		a.Logger.Log(c.Ctx, slog.LevelInfo, "answer.malformed", append(c.Core.LogAttrs(),
			"question", logline.Printable(key, maxKey), "fault", fault, "in_a_row", inARow, "silenced", silenced)...)
	}
}
