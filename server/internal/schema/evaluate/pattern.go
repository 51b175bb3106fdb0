package evaluate

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// A pattern is a regular expression with what it costs. Matching takes a time that grows with the
// length of the text, and with the number of states in which the expression can be at once: one for
// ^[a-z]{1,64}$, and a thousand for (a?){500}a{500}.
type pattern struct {
	text     string
	re       *regexp.Regexp
	anchored bool // at the beginning
	states   int  // at once, at most
}

// patternOf returns the pattern of a compiled expression. The compiler has used package regexp.
func patternOf(compiled jsv.Regexp) *pattern {
	p := &pattern{text: compiled.String()}
	p.re, _ = compiled.(*regexp.Regexp)
	if p.re == nil {
		p.re = regexp.MustCompile(p.text)
	}
	p.anchored, p.states = statesOf(p.text)
	return p
}

// matches reports whether the pattern occurs in a text.
func (r *run) matches(p *pattern, text []byte) bool {
	if !r.charge(p.stepsFor(len(text))) {
		return false
	}
	return p.re.Match(text)
}

// maxSubsetWork bounds the search for the states of one pattern.
const maxSubsetWork = 1 << 20

// statesOf returns whether an expression is anchored, and in how many states it can be at once, at
// most. It makes an automaton of the sets of states that follow each other. Where there are too many
// of these it counts all states.
func statesOf(text string) (anchored bool, states int) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return false, 1 // the compiler has reported it
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return false, 1
	}
	anchored = prog.StartCond()&syntax.EmptyBeginText != 0
	s := subsets{prog: prog, seen: map[string]bool{}, runes: runesOf(prog)}
	return anchored, s.widest(anchored)
}

// subsets are the sets of states of an expression.
type subsets struct {
	prog  *syntax.Prog
	runes []rune // one of each class of characters that the expression tells apart
	seen  map[string]bool
	todo  [][]uint32
	mark  []bool
	work  int
	most  int
}

func (s *subsets) widest(anchored bool) int {
	if len(s.runes) > maxSubsetWork/64 {
		return len(s.prog.Inst)
	}
	s.mark = make([]bool, len(s.prog.Inst))
	start := s.closure([]uint32{uint32(s.prog.Start)})
	s.add(start)
	for len(s.todo) > 0 {
		set := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		for _, c := range s.runes {
			var next []uint32
			for _, pc := range set {
				if inst := &s.prog.Inst[pc]; inst.Op >= syntax.InstRune && inst.MatchRune(c) {
					next = append(next, inst.Out)
				}
			}
			s.work += len(set)
			if !anchored {
				next = append(next, uint32(s.prog.Start))
			}
			if s.work > maxSubsetWork {
				return len(s.prog.Inst)
			}
			if len(next) > 0 {
				s.add(s.closure(next))
			}
		}
	}
	return s.most
}

// add adds a set unless it is known.
func (s *subsets) add(set []uint32) {
	key := make([]byte, 0, 4*len(set))
	for _, pc := range set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if s.seen[string(key)] {
		return
	}
	s.seen[string(key)] = true
	s.most = max(s.most, len(set))
	s.todo = append(s.todo, set)
}

// closure returns the states that follow without a character, sorted. All conditions on the position
// in the text count as true.
func (s *subsets) closure(from []uint32) (set []uint32) {
	for len(from) > 0 {
		pc := from[len(from)-1]
		from = from[:len(from)-1]
		if s.mark[pc] {
			continue
		}
		s.mark[pc] = true
		set = append(set, pc)
		switch inst := &s.prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			from = append(from, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			from = append(from, inst.Out)
		}
	}
	for _, pc := range set {
		s.mark[pc] = false
	}
	s.work += len(set)
	slices.Sort(set)
	return set
}

// runesOf returns characters of which any other is treated as one.
func runesOf(prog *syntax.Prog) []rune {
	all := map[rune]bool{0: true, '\n': true, unicode.MaxRune: true}
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		if inst.Op < syntax.InstRune {
			continue
		}
		for _, c := range inst.Rune {
			all[c-1], all[c], all[c+1] = true, true, true
			if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
				for folded := unicode.SimpleFold(c); folded != c; folded = unicode.SimpleFold(folded) {
					all[folded] = true
				}
			}
		}
	}
	runes := make([]rune, 0, len(all))
	for c := range all {
		if c >= 0 && c <= unicode.MaxRune {
			runes = append(runes, c)
		}
	}
	slices.Sort(runes)
	return runes
}

// stepsFor returns the steps that the pattern needs for a text of so many bytes: about 10 ns for each
// byte and state, and half of that if a match can begin at the beginning only.
func (p *pattern) stepsFor(bytes int) int {
	if p.anchored {
		return 1 + bytes*p.states/2
	}
	return 1 + bytes*p.states
}
