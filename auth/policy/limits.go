package policy

import "errors"

// Names of limits, see [Config].
const (
	LimitFileBytes    = "max_policy_file_bytes"
	LimitRules        = "max_policy_rules"
	LimitCostEstimate = "max_policy_cost_estimate"
	LimitCost         = "max_policy_cost"
	LimitValues       = "max_policy_values"
	LimitDepth        = "max_policy_depth"
)

// setLimits sets the limits that are not set to their defaults.
func (c *Config) setLimits() {
	for limit, standard := range map[*int]int{&c.MaxFileBytes: 1 << 20, &c.MaxRules: 1000, &c.MaxValues: 10_000, &c.MaxDepth: 128} {
		if *limit <= 0 {
			*limit = standard
		}
	}
	if c.MaxCost == 0 {
		c.MaxCost = 100_000
	}
	if c.MaxCostEstimate == 0 {
		c.MaxCostEstimate = 10_000_000
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
