package evaluate

import (
	"regexp/syntax"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// A format is a format that is asserted. All formats are about strings.
type format struct {
	name  string
	check func(text string) bool
	// base and steps are the steps of a check, and for each byte.
	base, steps int
}

// splitting are the formats that the library checks by splitting the text, which takes up to 16
// bytes of memory for one of text.
var splitting = map[string]bool{
	"json-pointer": true, "relative-json-pointer": true, "uuid": true, "duration": true, "period": true,
	"ipv4": true, "uri-template": true, "semver": true,
}

func formatOf(f *jsv.Format) *format {
	switch {
	case f == nil:
		return nil
	case f.Name == "regex": // the library compiles it, for which a few bytes can need 100 MB
		return &format{f.Name, validRegex, 256, 64}
	case splitting[f.Name]:
		return &format{f.Name, func(text string) bool { return f.Validate(text) == nil }, 24, 8}
	}
	return &format{f.Name, func(text string) bool { return f.Validate(text) == nil }, 24, 1}
}

func validRegex(text string) bool {
	_, err := syntax.Parse(text, syntax.Perl)
	return err == nil
}

// hasFormat reports whether a string has a format.
func (r *run) hasFormat(f *format, v uint32) bool {
	text := r.doc.text(v)
	return r.charge(f.base+len(text)*f.steps) && f.check(string(text))
}
