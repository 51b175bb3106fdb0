package template

// The kinds of states.
const (
	opLiteral = iota // a text
	opValue          // the value of a variable: characters of a class, as many as possible
	opRun            // the same as a part of a value
	opBegin          // the value of a variable begins
	opEnd            // the value of a variable ends
	opEither         // next, or else other
	opFinal          // the URI ends
)

// The classes of characters. A list is a run as well: the comma, or the slash of {/name*}, separates
// its values.
const (
	emptyRun    = iota // none
	plainRun           // unreserved and escaped characters
	commaRun           // these, and the comma
	slashRun           // these, and the slash
	reservedRun        // these, and all reserved characters
	classes
)

// A state of an automaton says what must come, and what state is next.
type state struct {
	op       int
	number   int
	next     *state
	other    *state // of opEither
	text     string // of opLiteral
	class    int    // of opValue and opRun
	most     int    // of opValue and opRun: characters, 0 is any number
	variable int    // of opValue, opBegin and opEnd
	// sep is what separates the "variable=value" pairs of an exploded variable whose name is
	// repeated. It is of opEnd.
	sep string
}

// An automaton has the states of a template. It is made from its end to its beginning.
type automaton struct{ states int }

func (a *automaton) add(s state) *state {
	s.number = a.states
	a.states++
	return &s
}

// literal returns the state for a text. No text needs no state.
func (a *automaton) literal(text string, next *state) *state {
	if text == "" {
		return next
	}
	return a.add(state{op: opLiteral, text: text, next: next})
}

// either returns the state that tries one state and then another, which may be nil.
func (a *automaton) either(one, other *state) *state {
	if other == nil {
		return one
	}
	return a.add(state{op: opEither, next: one, other: other})
}
