package template

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// A matcher matches one URI, or what follows the common prefix of a template. It tries the alternatives in order, as package regexp would, and
// remembers which state has failed at which position: the work is at most about the number of
// states times the length of the URI.
//
// Package regexp itself needs a state for each character of a bounded value like {name:100}, and
// can be in all of them at once.
type matcher struct {
	uri    string
	starts []int          // first bytes of the characters, and the length of the URI
	kinds  []int          // the narrowest class with each character, or classes
	ends   [classes][]int // the characters after the runs that begin at each character
	at     []int          // number of the character that begins at a byte, or -1
	tried  []uint64       // a bit for each state and character
	failed []span         // for each state: characters after which the rest is known to fail
	values []value
}

type span struct{ from, to int }

// A value is where a variable has its value in the URI, in bytes.
type value struct {
	defined    bool
	begin, end int    // after the prefix
	sep        string // of state
}

// matchers has idle matchers. The plain version is a new one for each URI (BenchmarkMatch).
var matchers = sync.Pool{New: func() any { return new(matcher) }}

// matches reports whether a URI matches the template. It calls visit, if that is not nil, with the
// values of the variables in their order.
func (t *Template) matches(uri string, visit func(values []value)) bool {
	if len(uri) > MaxLength || !strings.HasPrefix(uri, t.prefix) || !strings.HasSuffix(uri, t.suffix) {
		return false
	}
	m := matchers.Get().(*matcher)
	defer matchers.Put(m)
	m.uri = uri[len(t.prefix):]
	m.split()
	m.tried = zeroed(m.tried, (t.states*len(m.starts)+63)/64)
	m.failed = zeroed(m.failed, t.states)
	m.values = zeroed(m.values, len(t.names))
	ok := m.match(t.start, 0)
	if ok && visit != nil {
		visit(m.values)
	}
	m.uri = ""
	return ok
}

// zeroed returns n zero values, in the memory of a slice if it has room.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// split finds the characters of the URI: bytes, or the escapes of one character of UTF-8.
func (m *matcher) split() {
	m.starts, m.kinds, m.at = m.starts[:0], m.kinds[:0], m.at[:0]
	for i := 0; i < len(m.uri); {
		kind, size := kindOf(m.uri[i]), 1
		if n := escapeLen(m.uri[i:]); n > 0 {
			kind, size = plainRun, n
		}
		m.at = append(m.at, len(m.starts))
		for range size - 1 {
			m.at = append(m.at, -1)
		}
		m.starts, m.kinds = append(m.starts, i), append(m.kinds, kind)
		i += size
	}
	m.at = append(m.at, len(m.starts))
	m.starts = append(m.starts, len(m.uri))
	for class := range m.ends {
		m.ends[class] = m.ends[class][:0]
	}
}

// end returns the character after the run of a class that begins at a character.
func (m *matcher) end(class, at int) int {
	if len(m.ends[class]) == 0 { // these are found once
		m.ends[class] = zeroed(m.ends[class], len(m.starts))
		end := len(m.kinds)
		m.ends[class][end] = end
		for i := end - 1; i >= 0; i-- {
			if !has(class, m.kinds[i]) {
				end = i
			}
			m.ends[class][i] = end
		}
	}
	return m.ends[class][at]
}

// match reports whether the rest of the URI from a character on matches a state and what follows it.
func (m *matcher) match(s *state, at int) bool {
	for {
		bit := s.number*len(m.starts) + at
		if m.tried[bit/64]&(1<<(bit%64)) != 0 {
			return false // it would have succeeded
		}
		m.tried[bit/64] |= 1 << (bit % 64)
		switch s.op {
		case opLiteral:
			start := m.starts[at]
			size, ok := literalLen(m.uri[start:], s.text)
			if !ok {
				return false
			}
			if at = m.at[start+size]; at < 0 {
				return false // in the middle of an escaped character
			}
		case opValue, opRun:
			return m.run(s, at)
		case opEither:
			if m.match(s.next, at) {
				return true
			}
			s = s.other
			continue
		case opBegin:
			ok := m.match(s.next, at)
			if ok {
				m.values[s.variable].begin = m.starts[at]
			}
			return ok
		case opEnd:
			ok := m.match(s.next, at)
			if ok {
				m.values[s.variable] = value{defined: true, end: m.starts[at], sep: s.sep}
			}
			return ok
		case opFinal:
			return at == len(m.kinds)
		}
		s = s.next
	}
}

// literalLen returns how many bytes of a URI a literal text takes that it begins with. Each character that is not ASCII may be
// escaped in the URI.
func literalLen(uri, text string) (size int, ok bool) {
	if strings.HasPrefix(uri, text) {
		return len(text), true
	}
	for text != "" {
		_, n := utf8.DecodeRuneInString(text)
		switch {
		case strings.HasPrefix(uri[size:], text[:n]):
			size += n
		case text[0] >= utf8.RuneSelf && beginsEscaped(uri[size:], text[:n]):
			size += 3 * n
		default:
			return 0, false
		}
		text = text[n:]
	}
	return size, true
}

// beginsEscaped reports whether a URI begins with the escapes of all bytes of a character.
func beginsEscaped(uri, char string) bool {
	for i := range len(char) {
		if c, ok := octet(uri[min(3*i, len(uri)):]); !ok || c != char[i] {
			return false
		}
	}
	return true
}

// run tries the longest run of characters first.
func (m *matcher) run(s *state, at int) bool {
	end := m.end(s.class, at)
	if s.most > 0 {
		end = min(end, at+s.most)
	}
	from := end
	if f := &m.failed[s.number]; f.from <= end && end < f.to {
		from = f.from - 1 // an attempt that began later has failed from there on
	}
	for ; from >= at; from-- {
		if m.match(s.next, from) {
			if s.op == opValue {
				m.values[s.variable] = value{defined: true, begin: m.starts[at], end: m.starts[from]}
			}
			return true
		}
	}
	m.failed[s.number] = span{at, end + 1}
	return false
}

// has reports whether a class has the characters of a kind.
func has(class, kind int) bool {
	return class != emptyRun && (kind == plainRun || kind == class || class == reservedRun && kind != classes)
}

// kindOf returns the narrowest class with a byte, or classes.
func kindOf(c byte) int {
	switch {
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~':
		return plainRun
	case c == ',':
		return commaRun
	case c == '/':
		return slashRun
	case strings.IndexByte(":?#[]@!$&'()*+;=", c) >= 0:
		return reservedRun
	}
	return classes
}

// escapeLen returns the length of the escapes of one character of UTF-8 at the beginning of a text,
// or 0. It looks at the length of the encoding and not for code points that UTF-8 does not have.
func escapeLen(text string) int {
	first, ok := octet(text)
	if !ok {
		return 0
	}
	size := 0
	switch {
	case first < 0x80:
		size = 1
	case first>>5 == 0b110:
		size = 2
	case first>>4 == 0b1110:
		size = 3
	case first>>3 == 0b11110:
		size = 4
	}
	for i := 1; i < size; i++ {
		if c, ok := octet(text[3*i:]); !ok || c>>6 != 0b10 {
			return 0
		}
	}
	return 3 * size
}

// octet reads one escape.
func octet(text string) (c byte, ok bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	high, low := hexValue(text[1]), hexValue(text[2])
	return high<<4 | low, high < 16 && low < 16
}

func hexValue(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
