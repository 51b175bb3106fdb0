package server

import (
	"context"
	"strings"
)

// A CompleteFunc proposes values for an argument of a prompt or a variable of a
// resource template (specification: "Completion"). value is what the user has typed so
// far, decided are the other arguments that have their values already; all of it is
// untrusted. It returns what fits, the best first; the client is shown no more than
// [mcp.MaxCompletions] of that, and told how many there are.
//
// Errors are treated as those of a [PromptHandler]. It may run on many goroutines at
// once.
type CompleteFunc func(ctx context.Context, call *Call, value string, decided map[string]string) ([]string, error)

// CompleteFrom returns a CompleteFunc that proposes those of the values that begin
// with what was typed, in either case.
func CompleteFrom(values ...string) CompleteFunc {
	return func(_ context.Context, _ *Call, value string, _ map[string]string) (fit []string, err error) {
		for _, v := range values {
			if len(v) >= len(value) && strings.EqualFold(v[:len(value)], value) {
				fit = append(fit, v)
			}
		}
		return fit, nil
	}
}
