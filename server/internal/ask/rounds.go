package ask

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// rounds has the questions and answers of one call: the answers of the earlier rounds, and the
// questions of this run of the handler.
type rounds struct {
	mu      sync.Mutex
	done    int // how many rounds are over
	answers map[string]answer
	asked   map[string]digest   // in this run
	open    map[string]Question // in this run, and without an answer
	faulty  malformedAnswers
}

// An answer is what the client has answered to a question.
type answer struct {
	// Asked identifies the question. It is nil if the answer came before the question.
	Asked digest         `json:"asked"`
	Value jsontext.Value `json:"value"`
	// err is the error that the handler gets instead of an answer.
	err error
}

// A digest identifies a question by its method and params.
type digest []byte

func (q Question) digest() (digest, error) {
	params, err := wire.Marshal(nil, q.Params)
	if err != nil {
		return nil, fmt.Errorf("server: encode the params of %s: %w", q.Method, err)
	}
	return digestOf(q.Method, string(params)), nil
}

// digestOf hashes parts. The boundaries of the parts are hashed, too.
func digestOf(parts ...string) digest {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil)
}

// inputRequired is the error with which a handler stops at a question.
type inputRequired struct{ key string }

func (e inputRequired) Error() string        { return mcp.ErrInputRequired.Error() + ": " + e.key }
func (e inputRequired) Is(target error) bool { return target == mcp.ErrInputRequired }

// errNoQuestion is the error of a handler that returns mcp.ErrInputRequired and has asked nothing.
var errNoQuestion = errors.New("server: the handler wants input, but has not asked for any")

// errRounds is the error of a request that has used all its rounds.
var errRounds = errors.New("server: too many rounds of input")

// ask returns the answer to a question. Without an answer it notes the question and returns
// inputRequired. A malformed answer counts as none, and is logged.
func (r *rounds) ask(c *Call, key string, q Question) (jsontext.Value, error) {
	d, err := q.digest()
	if err != nil {
		return nil, err
	}
	a, answered, err := r.note(key, d)
	fault := ""
	switch {
	case err != nil:
		return nil, err
	case answered && a.err != nil:
		return nil, a.err
	case answered:
		err := q.Check(a.Value, true) // without the lock: it may run a user's code
		if noRoom, ok := errors.AsType[NoRoomError](err); ok {
			return nil, noRoom.Err
		}
		if err == nil {
			return a.Value, nil
		}
		if c.Ctx.Err() == nil { // else the check may have failed for that
			fault = faultOf(err)
		}
	}
	if inARow := r.reopen(key, d, q, fault); inARow > 0 {
		c.logMalformed(key, fault, inARow)
	}
	return nil, inputRequired{key}
}

// reopen notes that a question has no answer. With a fault of an answer that it had, it returns how many answers to the question were
// malformed, one after the other; or 0 if another goroutine has reported the fault.
func (r *rounds) reopen(key string, d digest, q Question, fault string) (inARow int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, had := r.answers[key]; had && fault != "" {
		inARow = r.faulty.add(key, d, fault)
	}
	delete(r.answers, key)
	if r.open == nil {
		r.open = map[string]Question{}
	}
	r.open[key] = q
	return inARow
}

// note notes that a question was asked in this run and returns its answer.
func (r *rounds) note(key string, d digest) (a answer, answered bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = map[string]digest{}
	}
	if before, again := r.asked[key]; again && string(before) != string(d) {
		return a, false, fmt.Errorf("server: the handler asks two questions under the key %q", key)
	}
	r.asked[key] = d
	if a, answered = r.answers[key]; !answered {
		return a, false, nil
	}
	if a.Asked == nil { // from now on it is the answer to this question
		a.Asked = d
		r.answers[key] = a
	}
	return a, string(a.Asked) == string(d), nil
}

// answer notes an answer of the client.
func (r *rounds) answer(key string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string]answer{}
	}
	r.answers[key] = a
}

// next ends a run of the handler and returns its open questions with all digests. It returns an
// error if there are none, if limit rounds are over, or if a question has had too many malformed answers.
func (r *rounds) next(limit int) (open map[string]Question, asked map[string]digest, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	open, asked, r.open, r.asked = r.open, r.asked, nil, nil
	if len(open) == 0 {
		return nil, nil, errNoQuestion
	}
	last := r.faulty.endRun()
	if last.inARow >= maxMalformed {
		return nil, nil, last
	}
	if r.done >= limit {
		if last.fault != "" {
			return nil, nil, errors.Join(errRounds, last)
		}
		return nil, nil, errRounds
	}
	r.done++
	maps.DeleteFunc(asked, func(key string, _ digest) bool { _, pending := open[key]; return !pending })
	return open, asked, nil
}

// A Source gets answers to the questions of a handler.
type Source interface {
	// Context returns the context that ends the wait for answers.
	Context() context.Context
	// Ask returns the answer if it is there. Otherwise it waits for the answer, or notes the
	// question and returns an error that matches [mcp.ErrInputRequired]. An answer that does
	// not pass q.Check is asked for again. Ask is safe for concurrent use.
	Ask(key string, q Question) (jsontext.Value, error)
}

// A Question is a request of a handler to the client, in the form of the latest revision.
type Question struct {
	mcp.InputRequest
	// Check returns what is wrong with an answer, or a [NoRoomError]. It keeps the value of an answer that the handler gets next.
	// It may run the user's code.
	Check func(answer jsontext.Value, keep bool) error
	// page is the ElicitationID of the page that the user is asked to open, or "". It is not
	// sent to modern clients.
	page string
}
