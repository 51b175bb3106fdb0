// Package rates has token buckets for the messages of callers. A [Limiter] decides whether a message
// comes too often.
package rates

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Rule is a limit on how often messages come. middleware.RateLimit has the same fields, with what
// they mean, and is converted to this type: the compiler holds the two together.
type Rule struct {
	Name     string
	Per      []string
	Methods  []string
	Tools    []string
	Requests int
	Window   time.Duration
	Burst    int
}

// The values of [Rule.Per].
const (
	PerPrincipal = "principal"
	PerTenant    = "tenant"
	PerAddress   = "address"
	PerMethod    = "method"
	PerTool      = "tool"
)

// PerValues lists the values of [Rule.Per].
func PerValues() []string {
	return []string{PerPrincipal, PerTenant, PerAddress, PerMethod, PerTool}
}

// Bounds of rules.
const (
	maxRules  = 64
	maxWindow = 366 * 24 * time.Hour
	minWindow = time.Millisecond
)

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// check returns what is wrong with a rule.
func (r *Rule) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(r.Name) {
		fault("a name of letters, digits, _, - and . is missing")
	}
	if r.Requests <= 0 {
		fault("the number of requests must be positive, and is %d", r.Requests)
	}
	if r.Window < minWindow || r.Window > maxWindow {
		fault("the window must be between %v and %v, and is %v", minWindow, maxWindow, r.Window)
	}
	if r.Burst < 0 {
		fault("the burst must not be negative, and is %d", r.Burst)
	}
	for i, per := range r.Per {
		switch {
		case !slices.Contains(PerValues(), per):
			fault("per %q is not known: want some of %q", per, PerValues())
		case slices.Contains(r.Per[:i], per):
			fault("per %q is there twice", per)
		}
	}
	if slices.Contains(r.Methods, mcp.NotificationCancelled) {
		fault("%s cannot be limited: it ends work", mcp.NotificationCancelled)
	}
	if (len(r.Tools) > 0 || slices.Contains(r.Per, PerTool)) && len(r.Methods) > 0 && !slices.Contains(r.Methods, mcp.MethodToolsCall) {
		fault("a rule about tools needs the method %s, or no methods", mcp.MethodToolsCall)
	}
	if slices.Contains(r.Methods, "") || slices.Contains(r.Tools, "") {
		fault("the name of a method or a tool is empty")
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("rate limit %.64q: %w", r.Name, errors.Join(faults...))
}

// tokens returns how many messages may come at once.
func (r *Rule) tokens() int { return cmp.Or(r.Burst, r.Requests) }

// always are the methods that a rule limits only if it names them. They begin and keep a
// connection, or end work: a client that cannot use them is lost.
var always = []string{
	mcp.MethodInitialize, mcp.NotificationInitialized, mcp.MethodPing, mcp.MethodServerDiscover, mcp.MethodTasksCancel,
}

// limits reports whether the rule is about a message.
func (r *Rule) limits(m *Message) bool {
	switch {
	case m.Method == mcp.NotificationCancelled:
		return false
	case len(r.Tools) > 0:
		return m.Method == mcp.MethodToolsCall && slices.Contains(r.Tools, m.Tool)
	case len(r.Methods) > 0:
		return slices.Contains(r.Methods, m.Method)
	case slices.Contains(r.Per, PerTool):
		return m.Method == mcp.MethodToolsCall
	}
	return !slices.Contains(always, m.Method)
}
