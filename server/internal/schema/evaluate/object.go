package evaluate

import "github.com/santhosh-tekuri/jsonschema/v6/kind"

// object applies the keywords about objects.
func (r *run) object(o *objectRules, v uint32, marked *marks) bool {
	if !r.charge(stepsPerParts) {
		return false
	}
	count, ok := int(r.doc.entries[v].size), true
	if o.minProperties != nil && count < *o.minProperties {
		ok = r.fail(func() any { return &kind.MinProperties{Got: count, Want: *o.minProperties} })
	}
	if o.maxProperties != nil && count > *o.maxProperties {
		ok = r.fail(func() any { return &kind.MaxProperties{Got: count, Want: *o.maxProperties} }) && ok
	}
	var seen []bool
	from := len(r.seen)
	if (ok || r.collects()) && len(o.required)+len(o.dependencies)+len(o.dependent) > 0 {
		seen = r.see(o, v)
		for _, name := range o.required {
			if !seen[name.number] && (ok || r.collects()) {
				ok = r.failProperty(name.name, func() any { return &kind.Required{} })
			}
		}
		ok = r.dependencies(o.dependencies, v, seen, marked) && ok
	}
	if ok || r.collects() {
		ok = r.members(o, v, marked) && ok
	}
	if len(o.dependent) > 0 && (ok || r.collects()) {
		ok = r.dependencies(o.dependent, v, seen, marked) && ok
	}
	r.seen = r.seen[:from]
	return ok
}

// see returns which of the properties that the schema names an object has, by their numbers. They are
// on a stack.
func (r *run) see(o *objectRules, v uint32) []bool {
	from := len(r.seen)
	r.seen = append(r.seen, make([]bool, len(o.names))...)
	seen := r.seen[from:]
	r.charge(len(o.names) / namesPerStep)
	e := r.doc.entries[v]
	for name := v + 1; name < e.next; name = r.doc.entries[name+1].next {
		if !r.charge(1 + r.nameSteps(name)) {
			break
		}
		if known := o.names[string(r.doc.text(name))]; known != nil {
			seen[known.number] = true
		}
	}
	return seen
}

// dependencies applies the keywords about what else an object must have because of one property.
func (r *run) dependencies(list []dependency, v uint32, seen []bool, marked *marks) bool {
	ok := true
	for i := range list {
		if seen[list[i].because.number] && (ok || r.collects()) {
			ok = r.dependency(&list[i], v, seen, marked) && ok
		}
	}
	return ok
}

func (r *run) dependency(d *dependency, v uint32, seen []bool, marked *marks) bool {
	if d.schema != nil {
		return r.applySelf(d.schema, v, marked)
	}
	var missing []string
	for _, name := range d.required {
		if !seen[name.number] {
			if r.faults == nil {
				return false
			}
			missing = append(missing, name.name)
		}
	}
	return missing == nil || r.fail(func() any {
		if d.old {
			return &kind.Dependency{Prop: d.because.name, Missing: missing}
		}
		return &kind.DependentRequired{Prop: d.because.name, Missing: missing}
	})
}

// nameSteps are the steps of looking for a name.
func (r *run) nameSteps(name uint32) int { return len(r.doc.literal(name)) / bytesPerStep }

// members applies the keywords about the members.
func (r *run) members(o *objectRules, v uint32, marked *marks) bool {
	if o.additional != nil || o.closed || o.open {
		marked.markAll()
	}
	if !o.aboutMembers {
		return true
	}
	ok := true
	e := r.doc.entries[v]
	for name, position := v+1, 0; name < e.next && (ok || r.collects()); position++ {
		if !r.charge(1 + r.nameSteps(name)) {
			return false
		}
		ok = r.member(o, name, position, marked) && ok
		if o.nameRule != nil && (ok || r.collects()) {
			ok = r.propertyName(o.nameRule, name) && ok
		}
		name = r.doc.entries[name+1].next
	}
	return ok
}

func (r *run) member(o *objectRules, name uint32, position int, marked *marks) bool {
	ok, evaluated := true, false
	if len(o.names) > 0 {
		if known := o.names[string(r.doc.text(name))]; known != nil && known.schema != nil {
			evaluated = true
			ok = r.applyMember(known.schema, name, position)
		}
	}
	for i := range o.patterns {
		rule := &o.patterns[i]
		if (ok || r.collects()) && r.matches(rule.pattern, r.doc.text(name)) {
			evaluated = true
			ok = r.applyMember(rule.schema, name, position) && ok
		}
	}
	switch {
	case evaluated:
		marked.mark(position)
	case !ok:
	case o.closed:
		return r.collects() && r.failProperty(r.name(name), func() any { return &kind.AdditionalProperties{} })
	case o.additional != nil:
		return r.applyMember(o.additional, name, position)
	}
	return ok
}

// propertyName applies a schema to the name of a member.
func (r *run) propertyName(rule *node, name uint32) bool {
	faults := r.faults
	r.faults = nil
	ok := r.apply(rule, name, nil)
	r.faults = faults
	return ok || r.failName(rule, name)
}

// applyMember applies a node to the value of a member.
func (r *run) applyMember(n *node, name uint32, position int) bool {
	return r.applyPart(n, name+1, token{name, position})
}

// applyPart applies a node to a part of the value to which the path leads.
func (r *run) applyPart(n *node, part uint32, at token) bool {
	r.path = append(r.path, at)
	ok := r.apply(n, part, nil)
	r.path = r.path[:len(r.path)-1]
	return ok
}
