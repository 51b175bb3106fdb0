package wire

import "github.com/vitrine-mcp/vitrine/mcp"

// ForCaller returns the outermost error in a tree that was made for callers: an [mcp.Error],
// an [mcp.ToolError] or an [mcp.Refusal], or nil. An error with a method ForCaller says itself
// in which error to look.
func ForCaller(err error) error {
	switch e := err.(type) {
	case *mcp.Error, *mcp.ToolError, *mcp.Refusal:
		return e
	case interface{ ForCaller() error }:
		return ForCaller(e.ForCaller())
	case interface{ Unwrap() error }:
		return ForCaller(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if found := ForCaller(err); found != nil {
				return found
			}
		}
	}
	return nil
}
