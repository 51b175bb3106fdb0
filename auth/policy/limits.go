package policy

import (
	"errors"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Names of limits, see [Config].
const (
	LimitFileBytes    = "max_policy_file_bytes"
	LimitRules        = "max_policy_rules"
	LimitCostEstimate = "max_policy_cost_estimate"
	LimitCost         = "max_policy_cost"
	LimitValues       = "max_policy_values"
	LimitDepth        = "max_policy_depth"
)

// The defaults of limits.
const (
	standardFileBytes    = 1 << 20
	standardRules        = 1000
	standardCostEstimate = 10_000_000
	standardCost         = 100_000
	standardValues       = 10_000
	standardDepth        = 128
)

// setLimits sets the limits that are not set to their defaults.
func (c *Config) setLimits() {
	for limit, standard := range map[*int]int{
		&c.MaxFileBytes: standardFileBytes, &c.MaxRules: standardRules, &c.MaxValues: standardValues, &c.MaxDepth: standardDepth,
	} {
		if *limit <= 0 {
			*limit = standard
		}
	}
	if c.MaxCost == 0 {
		c.MaxCost = standardCost
	}
	if c.MaxCostEstimate == 0 {
		c.MaxCostEstimate = standardCostEstimate
	}
}

// limits describes the limits in the order of docs/limits.md.
func (c *Config) limits() []auth.Limit {
	return []auth.Limit{
		{Name: LimitFileBytes, Unit: "bytes", About: "the file of rules", Value: c.MaxFileBytes, Default: standardFileBytes},
		{Name: LimitRules, Unit: "rules", About: "the rules of the file", Value: c.MaxRules, Default: standardRules},
		{Name: LimitCostEstimate, Unit: "steps", About: "what an expression may take with large values", Value: int(c.MaxCostEstimate), Default: standardCostEstimate},
		{Name: LimitCost, Unit: "steps", About: "one evaluation of an expression", Value: int(c.MaxCost), Default: standardCost},
		{Name: LimitValues, Unit: "values", About: "the values of the arguments that rules read", Value: c.MaxValues, Default: standardValues},
		{Name: LimitDepth, Unit: "levels", About: "the nesting of arguments that rules read", Value: c.MaxDepth, Default: standardDepth},
	}
}

// A limitError says which limit was reached.
type limitError struct{ limit, text string }

func (e *limitError) Error() string { return e.text + " (" + e.limit + ")" }

// tellLimit tells of the limit that an error is about, if it is about one.
func (c *Config) tellLimit(err error) {
	if reached, ok := errors.AsType[*limitError](err); ok {
		c.OnLimit(reached.limit)
	}
}
