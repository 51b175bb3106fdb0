package mcp

import (
	"maps"
	"slices"
	"strings"
)

// A NotDeclaredError names the capabilities that a request to the client needs and the
// client has not declared. It matches [ErrNotDeclared]. A handler that cannot go on
// without them returns it. The server answers in the form of the client's revision: a
// modern client gets [CodeMissingRequiredCapability].
type NotDeclaredError struct {
	Missing ClientCapabilities
}

// Error names the capabilities.
func (e *NotDeclaredError) Error() string {
	return ErrNotDeclared.Error() + ": " + strings.Join(e.Missing.names(), ", ")
}

// Is reports whether target is [ErrNotDeclared].
func (e *NotDeclaredError) Is(target error) bool { return target == ErrNotDeclared }

// MissingCapabilityData is the data of a [CodeMissingRequiredCapability] error.
type MissingCapabilityData struct {
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
}

// Lacks returns the part of need that c does not have, and whether there is any.
// Settings of extensions and the members of Experimental are not compared, only
// whether the key is there.
func (c ClientCapabilities) Lacks(need ClientCapabilities) (missing ClientCapabilities, lacks bool) {
	if need.Roots != nil && c.Roots == nil {
		missing.Roots = &RootsCapability{}
	}
	missing.Sampling = c.Sampling.lacks(need.Sampling)
	missing.Elicitation = c.Elicitation.lacks(need.Elicitation)
	missing.Extensions = keysMissing(c.Extensions, need.Extensions)
	missing.Experimental = keysMissing(c.Experimental, need.Experimental)
	return missing, len(missing.names()) > 0
}

// Union returns the capabilities that are in c or in d.
func (c ClientCapabilities) Union(d ClientCapabilities) ClientCapabilities {
	missing, _ := c.Lacks(d)
	if missing.Roots != nil {
		c.Roots = missing.Roots
	}
	if m := missing.Sampling; m != nil {
		sum := *m
		if c.Sampling != nil {
			sum = SamplingCapability{Context: either(c.Sampling.Context, m.Context), Tools: either(c.Sampling.Tools, m.Tools)}
		}
		c.Sampling = &sum
	}
	if m := missing.Elicitation; m != nil {
		sum := *m
		if c.Elicitation != nil { // which may be forms without saying so
			sum = ElicitationCapability{Form: either(m.Form, c.Elicitation.form()), URL: either(c.Elicitation.URL, m.URL)}
		}
		c.Elicitation = &sum
	}
	c.Extensions = merged(c.Extensions, missing.Extensions)
	c.Experimental = merged(c.Experimental, missing.Experimental)
	return c
}

// names lists the declared capabilities, such as "sampling.tools".
func (c ClientCapabilities) names() (names []string) {
	add := func(declared bool, name string) {
		if declared {
			names = append(names, name)
		}
	}
	add(c.Roots != nil, "roots")
	if s := c.Sampling; s != nil {
		add(s.Context != nil, "sampling.context")
		add(s.Tools != nil, "sampling.tools")
		add(*s == SamplingCapability{}, "sampling")
	}
	if e := c.Elicitation; e != nil {
		add(e.form() != nil, "elicitation.form")
		add(e.URL != nil, "elicitation.url")
	}
	for _, id := range slices.Sorted(maps.Keys(c.Extensions)) {
		add(true, id)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Experimental)) {
		add(true, id)
	}
	return names
}

func (c *SamplingCapability) lacks(need *SamplingCapability) *SamplingCapability {
	if need == nil {
		return nil
	}
	if c == nil {
		return need
	}
	missing := SamplingCapability{Context: without(need.Context, c.Context), Tools: without(need.Tools, c.Tools)}
	if missing == (SamplingCapability{}) {
		return nil
	}
	return &missing
}

func (c *ElicitationCapability) lacks(need *ElicitationCapability) *ElicitationCapability {
	if need == nil {
		return nil
	}
	missing := ElicitationCapability{Form: need.form(), URL: need.URL}
	if c != nil {
		missing = ElicitationCapability{Form: without(missing.Form, c.form()), URL: without(missing.URL, c.URL)}
	}
	if missing == (ElicitationCapability{}) {
		return nil
	}
	return &missing
}

// form is not nil if forms are declared. The capability {} means forms.
func (c *ElicitationCapability) form() *struct{} {
	if c.Form == nil && c.URL == nil {
		return &struct{}{}
	}
	return c.Form
}

func without(need, have *struct{}) *struct{} {
	if have != nil {
		return nil
	}
	return need
}

func either(a, b *struct{}) *struct{} {
	if a != nil {
		return a
	}
	return b
}

func keysMissing(have, need map[string]any) (missing map[string]any) {
	for key := range need {
		if _, there := have[key]; !there {
			missing = merged(missing, map[string]any{key: struct{}{}})
		}
	}
	return missing
}

func merged(a, b map[string]any) map[string]any {
	if len(b) == 0 {
		return a
	}
	sum := make(map[string]any, len(a)+len(b))
	maps.Copy(sum, a)
	maps.Copy(sum, b)
	return sum
}
