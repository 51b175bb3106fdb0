package main

import (
	"errors"
	"regexp/syntax"

	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	searchMaxPattern = 1000   // bytes of a pattern
	searchMaxProgram = 10_000 // elements of a pattern with all its repetitions unfolded
)

// patternError words a fault in a regular expression for its author.
func patternError(pattern string, err error) error {
	var fault *syntax.Error
	if errors.As(err, &fault) {
		return mcp.ToolErrorf("pattern %q is not a regular expression in Go (RE2) syntax: %s: %q", pattern, fault.Code, fault.Expr)
	}
	return mcp.ToolErrorf("pattern %q is not a regular expression in Go (RE2) syntax: %w", pattern, err)
}

// patternSize returns about the number of instructions to which a pattern compiles. It is
// called before compiling: the short pattern (\pL{99}){9} unfolds to nearly a thousand, and the
// longest that the regexp package accepts takes 128 MB.
func patternSize(re *syntax.Regexp) int {
	size := max(1, len(re.Rune))
	if re.Op == syntax.OpCharClass {
		size = 1 // Rune holds its ranges, but it is one instruction
	}
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}
