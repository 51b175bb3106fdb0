package policy

import "github.com/vitrine-mcp/vitrine/auth"

// callerResults are the results of the expressions that read only variables of the caller: they are the same for all items
// of one list. The plain version evaluates them for each item (BenchmarkDecide/list).
type callerResults struct {
	set       *ruleset
	principal *auth.Principal // which is immutable
	caller    operationCaller
	of        map[*expression]result
}

// An operationCaller is what an operation says of its caller.
type operationCaller struct{ transport, address, client, version string }

// results returns those of the present caller. The map is not nil.
func (v *variables) results() map[*expression]result {
	who := operationCaller{v.op.Transport, v.op.Address, v.op.ClientName, v.op.ClientVersion}
	if r := v.latest; r == nil || r.set != v.set || r.principal != v.principal || r.caller != who {
		v.latest = &callerResults{v.set, v.principal, who, map[*expression]result{}}
	}
	return v.latest.of
}

// evaluateListed evaluates the expression of a rule for an item of a list.
func (v *variables) evaluateListed(e *expression) (result, error) {
	if !e.reads.onlyCaller() {
		return e.evalListed(v)
	}
	known := v.results()
	if outcome, there := known[e]; there {
		return outcome, nil
	}
	outcome, err := e.evalListed(v)
	if err == nil {
		known[e] = outcome
	}
	return outcome, err
}
