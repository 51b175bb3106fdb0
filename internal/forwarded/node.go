package forwarded

import (
	"iter"
	"net/netip"
	"strings"
)

// maxLine bounds one line of the header Forwarded, in bytes. A longer one is malformed.
const maxLine = 2048

// nodes yields the addresses of the header Forwarded (RFC 7239), the last one first: those of the
// parameter "for". An element without an address is the zero value, such as one that is malformed,
// unknown or obfuscated.
func nodes(lines []string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			elements, ok := split(lines[i], ',')
			if !ok {
				yield(netip.Addr{})
				return
			}
			for j := len(elements) - 1; j >= 0; j-- {
				if !yield(node(elements[j])) {
					return
				}
			}
		}
	}
}

// node returns the address of one element, or the zero value.
func node(element string) (addr netip.Addr) {
	pairs, _ := split(element, ';')
	seen := false
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		switch {
		case !found && strings.Trim(pair, " \t") != "":
			return netip.Addr{}
		case !strings.EqualFold(strings.Trim(name, " \t"), "for"):
			continue
		case seen:
			return netip.Addr{}
		}
		seen = true
		addr = parseAddr(unquote(strings.Trim(value, " \t")))
	}
	return addr
}

// unquote removes the quotes of a quoted string. An address needs no escapes, so it keeps these, and
// is none then.
func unquote(value string) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// split splits a text at a separator outside of quoted strings. It returns false for a text that is
// too long, or ends within a quoted string.
func split(text string, separator byte) (parts []string, ok bool) {
	if len(text) > maxLine {
		return nil, false
	}
	quoted, begin := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // the next byte is escaped
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, begin = append(parts, text[begin:i]), i+1
		}
	}
	return append(parts, text[begin:]), !quoted
}
