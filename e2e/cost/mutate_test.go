//go:build unix

package cost

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A mutator changes payloads at random.
type mutator struct{ *rand.Rand }

// mutate returns a changed payload of at most so many bytes. others are payloads of the same target.
func (m mutator) mutate(isJSON bool, payload string, others []string, most int) string {
	for range 1 + m.IntN(3) {
		next := ""
		if isJSON {
			next = m.value(payload, others, most)
		} else {
			next = m.text(payload, others, most)
		}
		if len(next) <= most {
			payload = next
		}
	}
	return payload
}

// pick returns one of several things.
func pick[T any](m mutator, of []T) T { return of[m.IntN(len(of))] }

// times returns how often a part is repeated: a few times, or as often as there is room.
func (m mutator) times(part, used, most int) int {
	room := max((most-used)/max(part, 1), 1)
	switch m.IntN(3) {
	case 0:
		return 2 + m.IntN(8)
	case 1:
		return 1 + m.IntN(room)
	}
	return room
}

// atoms are values to begin with. Others are made of them.
var atoms = []string{
	"null", "true", "0", "-0", "1", "1.5", "1e512", "-1e-512", "7e-320", "0.1", "9007199254740993", "12345678901234567", "123456789012345678901234567890", "1e999",
	`""`, `"a"`, `"abc"`, `"x"`, `"\u0061"`, `"\ud83d\ude00"`, `"é"`, `"\n"`, `"a@b.c"`, `"1.2.3.4"`, `"\ud800"`, `"--"`,
	"[]", "[[]]", "[1]", "[1,1]", "{}", `{"a":1}`, `{"a":{}}`, `{"b":[]}`, `{"a":1,"b":2,"c":3}`, `{"c":{"a":1}}`, `{"k":"x","b":1}`, `{"\u0061":1}`, `{"a":{"\n":1}}`, `{"x-a":1}`,
}

// units are parts of strings.
var units = []string{"a", "z-", "é", `\u0061`, `\ud83d\ude00`, `\\`, "(", "(a|b)*", "[a-z]", "x{9}", "1.", "9", "::", "/", "~1", "%41", "{a}", "@", ".a", " ", "-", "ab", "a1"}

// grown returns a JSON payload with the items of each of its arrays again and again, up to so many
// bytes.
func (t target) grown(payload string, most int) (all []string) {
	if !t.json {
		return nil
	}
	for _, at := range spans(payload) {
		if array, ok := repeatItems(payload[at.from:at.to], most-len(payload)+at.to-at.from); ok {
			all = append(all, payload[:at.from]+array+payload[at.to:])
		}
	}
	return all
}

// repeatItems returns an array with its items again and again, up to so many bytes. It returns false for
// another value, and for an array without items.
func repeatItems(value string, most int) (string, bool) {
	if len(value) <= len("[]") || value[0] != '[' {
		return value, false
	}
	items := value[1 : len(value)-1]
	more := max(most-len(value), 0) / (len(items) + 1)
	return "[" + items + strings.Repeat(","+items, more) + "]", true
}

// A span is where a value stands in a text.
type span struct{ from, to int }

// spans returns the values in a JSON text, up to the first error.
func spans(text string) (all []span) {
	dec := jsontext.NewDecoder(bytes.NewBufferString(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var open []int
	for len(all) < 1<<12 {
		token, err := dec.ReadToken()
		if err != nil {
			break
		}
		end := int(dec.InputOffset())
		switch kind := token.Kind(); kind {
		case '{', '[':
			open = append(open, end-1)
		case '}', ']':
			all = append(all, span{open[len(open)-1], end})
			open = open[:len(open)-1]
		case '"':
			if parent, n := dec.StackIndex(dec.StackDepth()); parent == '{' && n%2 == 1 {
				continue // a name
			}
			quotes := strings.LastIndexByte(text[:end-1], '"')
			for quotes > 0 && backslashes(text[:quotes])%2 == 1 {
				quotes = strings.LastIndexByte(text[:quotes], '"')
			}
			all = append(all, span{quotes, end})
		default:
			all = append(all, span{end - len(token.String()), end})
		}
	}
	return all
}

// backslashes returns how many backslashes a text ends with.
func backslashes(text string) int { return len(text) - len(strings.TrimRight(text, `\`)) }

// value changes one value of a JSON text.
func (m mutator) value(payload string, others []string, most int) string {
	values := spans(payload)
	if len(values) == 0 {
		return pick(m, atoms)
	}
	at := pick(m, values)
	old := payload[at.from:at.to]
	return payload[:at.from] + m.changed(old, payload, others, most) + payload[at.to:]
}

// changed returns another value for an old one.
func (m mutator) changed(old, payload string, others []string, most int) string {
	used := len(payload)
	switch m.IntN(10) {
	case 0:
		return pick(m, atoms)
	case 9: // its items again and again
		if grown, ok := repeatItems(old, len(old)+1+m.IntN(max(most-used, 1))); ok {
			return grown
		}
		return pick(m, atoms)
	case 1: // a value from elsewhere
		from := pick(m, others)
		if values := spans(from); len(values) > 0 {
			at := pick(m, values)
			return from[at.from:at.to]
		}
		return old
	case 2: // the same item again and again
		n := m.times(len(old)+1, used, most)
		return "[" + strings.TrimSuffix(strings.Repeat(old+",", n), ",") + "]"
	case 3: // other items, as like as they can be
		return "[" + m.numbered(old, "%s", m.times(len(old)+8, used, most)) + "]"
	case 4: // members
		return "{" + m.numbered(old, pick(m, []string{`"a%d":`, `"%d":`, `"x-%d":`, `"\u0061%d":`})+"%s", m.times(len(old)+9, used, most)) + "}"
	case 5: // deeper
		n := min(m.times(6, used, most), 1+m.IntN(80))
		begin, end := "[", "]"
		if m.IntN(2) == 0 {
			begin, end = fmt.Sprintf(`{"%s":`, pick(m, []string{"a", "b", "c", "next"})), "}"
		}
		return strings.Repeat(begin, n) + old + strings.Repeat(end, n)
	case 6: // a long string
		unit := pick(m, units)
		return `"` + strings.Repeat(unit, m.times(len(unit), used, most)) + pick(m, units) + `"`
	case 7: // two members
		return fmt.Sprintf(`{"%s":%s,"%s":%s}`, pick(m, []string{"a", "b"}), old, pick(m, []string{"c", "d"}), pick(m, atoms))
	default: // a long number
		return strings.Repeat(pick(m, []string{"1", "9", "7"}), 1+m.IntN(512)) + pick(m, []string{"", "e512", ".5", "e-500"})
	}
}

// numbered returns copies of a value with commas between. In each a number takes the place of one
// digit, or of the first verb of the form.
func (m mutator) numbered(old, form string, n int) string {
	digit := strings.IndexAny(old, "0123456789")
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item := old
		if digit >= 0 && form == "%s" {
			item = old[:digit] + fmt.Sprint(i+1) + old[digit+1:]
		}
		if strings.Contains(form, "%d") {
			fmt.Fprintf(&b, form, i, item)
		} else {
			b.WriteString(item)
		}
	}
	return b.String()
}

// words are parts of texts that are not JSON.
var words = []string{"a", "%41", "%C3%BC", "/", ",", ";", "=", "&", "?", ".", "é", "\x00", " ", "\"", "\\", "q=0.5", "a=1", "AAAA", "-", "_", "{", "}", "00", "text/html", "*/*", "🙂", "x:"}

// text changes a text that is not JSON.
func (m mutator) text(payload string, others []string, most int) string {
	from := m.IntN(len(payload) + 1)
	to := from + m.IntN(min(len(payload)-from, 64)+1)
	switch m.IntN(6) {
	case 0: // a part again and again
		part := payload[from:to]
		return payload[:to] + strings.Repeat(part, m.times(len(part), len(payload), most)) + payload[to:]
	case 1:
		return payload[:from] + pick(m, words) + payload[to:]
	case 2:
		word := pick(m, words)
		return payload[:from] + strings.Repeat(word, m.times(len(word), len(payload), most)) + payload[to:]
	case 3:
		other := pick(m, others)
		return payload[:from] + other[m.IntN(len(other)+1):]
	case 4: // two words in turn
		both := pick(m, words) + pick(m, words)
		return payload[:from] + strings.Repeat(both, m.times(len(both), len(payload), most)) + payload[to:]
	default:
		return payload[:from] + payload[to:]
	}
}
