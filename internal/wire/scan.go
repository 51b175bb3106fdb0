package wire

import (
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A scanner validates one frame and records where the members of interest are, in one
// pass. It only reports whether a frame is valid. For an invalid one, [explain] reads the
// frame again and finds out what is wrong and where.
//
// It accepts exactly what a jsontext.Decoder without options accepts, which the tests
// check. A decoder would take more than twice as long (BenchmarkValidate), because it keeps a
// state for each token so that its input can come in pieces.
//
// The methods that read take the offset to begin at and return the offset after what they
// read, or bad.
type scanner struct {
	// notASCII has the highest bit of each byte, which marks a byte outside of ASCII. It is
	// 0 once the rest of the frame is known to be UTF-8.
	notASCII uint64
	// maxDepth is [Limits.MaxDepth]. A value that is nested deeper is skipped, so that the
	// input does not decide how large the stack becomes.
	maxDepth int
	names    nameStack
	fields
}

const bad = -1

// maxNesting is the largest [Limits.MaxDepth]. It is the bound of jsontext, so that handlers
// can unmarshal every message that passes here.
const maxNesting = 10000

// scanners holds idle scanners. A scanner in the pool has no reference to a frame. The plain version
// is a new scanner for each frame.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

func newScanner(frame []byte, maxDepth int) *scanner {
	s := scanners.Get().(*scanner)
	s.begin(frame, maxDepth)
	return s
}

// release puts s into the pool.
func (s *scanner) release() {
	s.reset()
	scanners.Put(s)
}

func (s *scanner) begin(frame []byte, maxDepth int) {
	s.frame, s.names.frame, s.notASCII, s.maxDepth = frame, frame, highBits, maxDepth
}

// reset forgets the frame. It runs on release and not on start, so that an idle scanner
// keeps no frame in memory.
func (s *scanner) reset() {
	s.names.reset()
	s.fields = fields{}
}

// message reads the whole frame. It does not look into an array: the caller rejects or
// splits a batch. If s.depth is larger than s.maxDepth afterwards, the message is too deep,
// and the grammar of what is nested deeper was not checked.
func (s *scanner) message() bool {
	i := space(s.frame, 0)
	if i == len(s.frame) {
		return false
	}
	s.top = jsontext.Kind(s.frame[i])
	if s.top == '[' {
		return true
	}
	i = s.value(i, 0, wholeMessage)
	return i != bad && space(s.frame, i) == len(s.frame)
}

// value reads the value of f. depth is the number of objects and arrays around it.
func (s *scanner) value(i, depth int, f field) int {
	if i >= len(s.frame) {
		return bad
	}
	switch s.frame[i] {
	case '"':
		i, _ = s.text(i + len(`"`))
		return i
	case '{':
		return s.object(i, depth+1, f)
	case '[':
		return s.array(i, depth+1)
	case 't':
		return literal(s.frame, i, "true")
	case 'f':
		return literal(s.frame, i, "false")
	case 'n':
		return literal(s.frame, i, "null")
	}
	return number(s.frame, i)
}

func (s *scanner) object(i, depth int, f field) int {
	if depth > s.maxDepth {
		return s.skip(i, depth)
	}
	s.depth = max(s.depth, depth)
	mark := s.names.mark()
	b := s.frame
	i = space(b, i+len("{"))
	if i < len(b) && b[i] == '}' {
		return i + len("}")
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return bad
		}
		end, escaped := s.text(i + len(`"`))
		if end == bad {
			return bad
		}
		name := s.names.push(span{i, end}, escaped)
		member := noField
		if f != noField {
			member = f.member(name)
		}
		if i = space(b, end); i >= len(b) || b[i] != ':' {
			return bad
		}
		start := space(b, i+len(":"))
		if i = s.value(start, depth, member); i == bad {
			return bad
		}
		if member != noField {
			s.found[member] = span{start, i}
		}
		if i = space(b, i); i >= len(b) {
			return bad
		}
		switch b[i] {
		case ',':
			i = space(b, i+len(","))
		case '}':
			if !s.names.popDistinct(mark) {
				return bad
			}
			return i + len("}")
		default:
			return bad
		}
	}
}

func (s *scanner) array(i, depth int) int {
	if depth > s.maxDepth {
		return s.skip(i, depth)
	}
	s.depth = max(s.depth, depth)
	b := s.frame
	i = space(b, i+len("["))
	if i < len(b) && b[i] == ']' {
		return i + len("]")
	}
	for {
		if i = s.value(i, depth, noField); i == bad {
			return bad
		}
		if i = space(b, i); i >= len(b) {
			return bad
		}
		switch b[i] {
		case ',':
			i = space(b, i+len(","))
		case ']':
			return i + len("]")
		default:
			return bad
		}
	}
}

// skip reads an object or array that is nested too deeply, to its closing bracket. It does not
// recurse. It checks strings only: the message will be refused, and its id may follow.
func (s *scanner) skip(i, depth int) int {
	b := s.frame
	around := depth - 1
	for depth = around; i < len(b); {
		switch b[i] {
		case '"':
			if i, _ = s.text(i + len(`"`)); i == bad {
				return bad
			}
			continue
		case '{', '[':
			depth++
			s.depth = max(s.depth, depth)
		case '}', ']':
			if depth--; depth == around {
				return i + len("}")
			}
		}
		i++
	}
	return bad
}

// text reads a string from after its opening quote to after its closing quote, and reports
// whether it has escapes.
//
// At the first byte outside of ASCII it checks that the rest of the frame is UTF-8. Such a
// byte is valid within strings only, so that this is the same as checking each string.
func (s *scanner) text(i int) (end int, escaped bool) {
	b := s.frame
	for {
		if i = plain(b, i, s.notASCII); i >= len(b) {
			return bad, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + len(`"`), escaped
		case c == '\\':
			if i = escape(b, i); i == bad {
				return bad, false
			}
			escaped = true
		case c < ' ' || !utf8.Valid(b[i:]):
			return bad, false
		default:
			s.notASCII = 0
		}
	}
}

// escape reads an escape sequence; two, if they are a surrogate pair.
func escape(b []byte, i int) int {
	if len(b)-i < len(`\n`) {
		return bad
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + len(`\n`)
	}
	unit := codeUnit(b, i)
	if unit == bad {
		return bad
	}
	i += len(`\u0000`)
	if utf16.IsSurrogate(unit) {
		if utf16.DecodeRune(unit, codeUnit(b, i)) == unicode.ReplacementChar {
			return bad
		}
		i += len(`\u0000`)
	}
	return i
}

// codeUnit returns the value of an escape sequence of the form \u0000, or bad.
func codeUnit(b []byte, i int) rune {
	if len(b)-i < len(`\u0000`) || b[i] != '\\' || b[i+1] != 'u' {
		return bad
	}
	var unit rune
	for _, c := range b[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return bad
		}
		unit = unit<<4 | rune(c)
	}
	return unit
}

// number reads a number as far as it goes. The caller checks what follows.
func number(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++ // and no digit after it
	} else if i = digits(b, i); i == bad {
		return bad
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i == bad {
			return bad
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits reads one digit or more.
func digits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return bad
	}
	return i
}

func literal(b []byte, i int, text string) int {
	if len(b)-i < len(text) || string(b[i:i+len(text)]) != text {
		return bad
	}
	return i + len(text)
}

// space skips the white space between tokens. Mostly there is none.
func space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
