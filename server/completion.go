package server

import (
	"context"
	"strings"
)

// A CompleteFunc proposes values for an argument of a prompt or a variable of a resource template
// (specification: "Completion"). value is what the user has typed so far, decided has the values
// of other arguments; both are untrusted. It returns the fitting values, the best first. The client
// gets at most [mcp.MaxCompletions] of them. If there are more, it also gets their number.
//
// Errors are treated as those of a [PromptHandler]. A CompleteFunc must be safe for concurrent use.
type CompleteFunc func(ctx context.Context, call *Call, value string, decided map[string]string) ([]string, error)

// CompleteFrom returns a CompleteFunc that proposes the values which begin with the typed text. It
// ignores case.
func CompleteFrom(values ...string) CompleteFunc {
	return func(_ context.Context, _ *Call, value string, _ map[string]string) (fit []string, err error) {
		value = strings.ToLower(value)
		for _, v := range values {
			if strings.HasPrefix(strings.ToLower(v), value) {
				fit = append(fit, v)
			}
		}
		return fit, nil
	}
}
