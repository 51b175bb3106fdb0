package evaluate

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// ErrSteps says that a validation was given up because it took too many steps.
var ErrSteps = errors.New("too many steps")

// A step is about a keyword that is applied to a value, or 10 ns. These constants say what else is
// a step.
const (
	bytesPerStep  = 16 // bytes that are compared, hashed or copied
	namesPerStep  = 4  // names in a schema that are looked at
	stepsPerEntry = 2  // of the document, to read it
	stepsPerHash  = 4  // of one value
	stepsPerMemo  = 8  // to look for a verdict and to remember it
	stepsPerGroup = 3  // of a schema that applies other schemas to the same value
	stepsPerParts = 6  // of a schema that is about the parts of a value
	stepsPerRead  = 2  // of a number, beside its digits
	stepsPerCheck = 1 << 15
)

// A run is one validation.
type run struct {
	program *Program
	doc     document
	ctx     context.Context
	left    int // steps
	check   int // the context is looked at when no more than these steps are left
	err     error

	second  bool       // the value is invalid: this is the pass for its faults
	faults  *collector // nil while only the verdict counts
	path    []token    // from the root to the value that is evaluated
	base    int        // of the paths of findings, in path
	active  []frame    // nodes that loop, with the values to which they are being applied
	cycles  int        // how often a node was found in active
	scope   uint32     // of dynamic references
	scopes  scopes
	memo    memo
	marks   []uint64 // a stack of sets of parts that were evaluated
	spare   []*marks // that were popped
	seen    []bool   // a stack of sets of properties that were seen
	hashes  []uint64 // see duplicates
	buffer  []byte
	digits  []byte // of a number, without its dot
	longest int    // see canonical
}

// A frame is a node that is being applied to a value.
type frame struct {
	node  *node
	value uint32
}

// maxIdleEntries bounds the memory that an idle run keeps.
const maxIdleEntries = 1 << 10

// idle has runs that are used again. The plain version is a new one for each value.
var idle = sync.Pool{New: func() any { return new(run) }}

// Run validates the text of a JSON value in so many steps at most. It returns the findings in the
// order of their paths, and whether there are more than [MaxFindings]. The error is [ErrSyntax],
// [ErrSteps], or the cause of the context.
func (p *Program) Run(ctx context.Context, raw []byte, steps int) (findings []Finding, more bool, err error) {
	r := idle.Get().(*run)
	defer r.release()
	r.program, r.ctx, r.left, r.longest = p, ctx, steps, math.MaxInt
	r.check = max(steps-stepsPerCheck, 0)
	if err := r.doc.parse(raw); err != nil {
		return nil, false, err
	}
	if levels := min(r.doc.levels, p.levels, manyLevels); levels > fewLevels {
		growStack(levels)
	}
	r.memo.begin(len(raw), len(r.doc.entries), len(p.nodes))
	r.charge(len(raw)/bytesPerStep + stepsPerEntry*len(r.doc.entries))
	if r.apply(p.root, 0, nil) || r.err != nil {
		return nil, false, r.err
	}
	r.second, r.faults = true, newCollector(MaxFindings)
	r.apply(p.root, 0, nil)
	findings, more = r.faults.result()
	return findings, more, r.err
}

// release puts a run into the pool, without the document and without large memory.
func (r *run) release() {
	entries, escapes, plain := r.doc.entries, r.doc.escaped, r.doc.plain
	buffer, digits, marks, seen := r.buffer, r.digits, r.marks, r.seen
	path, hashes := r.path, r.hashes
	*r = run{}
	if cap(entries) <= maxIdleEntries && cap(escapes) <= maxIdleEntries && cap(plain) <= 16*maxIdleEntries &&
		cap(buffer) <= 16*maxIdleEntries && cap(marks) <= maxIdleEntries && cap(seen) <= maxIdleEntries &&
		cap(path) <= maxIdleEntries && cap(hashes) <= maxIdleEntries {
		r.doc.entries, r.doc.escaped, r.doc.plain = entries[:0], escapes[:0], plain[:0]
		r.buffer, r.digits, r.hashes = buffer[:0], digits[:0], hashes[:0]
		r.marks, r.seen, r.path = marks[:0], seen[:0], path[:0]
	}
	idle.Put(r)
}

// charge takes steps, and reports whether the validation may go on.
func (r *run) charge(steps int) bool {
	r.left -= steps
	return r.left > r.check || r.recheck()
}

func (r *run) recheck() bool {
	r.check = max(r.left-stepsPerCheck, 0)
	switch {
	case r.err != nil:
	case r.left < 0:
		r.err = ErrSteps
	case r.ctx.Err() != nil:
		r.err = context.Cause(r.ctx)
	}
	return r.err == nil
}

// apply evaluates a node for a value and returns its verdict, which means nothing once r.err is set. It
// adds the parts of the value that were evaluated to marked, unless that is nil.
func (r *run) apply(n *node, v uint32, marked *marks) bool {
	if !r.charge(1) {
		return false
	}
	if n.boolean != nil {
		return *n.boolean || r.fail(func() any { return &kind.FalseSchema{} })
	}
	if !n.loops && !r.program.dynamic {
		return r.remembered(n, v, marked)
	}
	if n.loops {
		if r.isActive(n, v) {
			r.cycles++
			return r.fail(func() any { return &kind.RefCycle{} })
		}
		r.active = append(r.active, frame{n, v})
	}
	outer := r.scope
	if r.program.dynamic {
		r.scope = r.scopes.enter(outer, n.resource)
	}
	ok := r.remembered(n, v, marked)
	r.scope = outer
	if n.loops {
		r.active = r.active[:len(r.active)-1]
	}
	return ok
}

// remembered is evaluate, unless the verdict is known.
func (r *run) remembered(n *node, v uint32, marked *marks) bool {
	again := n.shared || n.deep && r.second && (r.faults == nil || r.faults.causes)
	if !n.branches && !(again && r.isLarge(v)) {
		return r.evaluate(n, v, marked)
	}
	if !r.charge(stepsPerMemo) {
		return false
	}
	key := r.memo.key(n.id, v, r.scope)
	known := r.memo.find(key)
	if known == valid && marked == nil {
		return true
	}
	if known == invalid && r.faults == nil {
		return false
	}
	cycles := r.cycles
	ok := r.evaluate(n, v, marked)
	if r.err == nil && r.cycles == cycles {
		r.memo.put(key, ok)
	}
	return ok
}

// isLarge reports whether a value has parts.
func (r *run) isLarge(v uint32) bool { return r.doc.entries[v].next > v+1 }

// isActive reports whether a node is being applied to a value already.
func (r *run) isActive(n *node, v uint32) bool {
	for i := len(r.active) - 1; i >= 0 && r.active[i].value == v; i-- {
		r.left--
		if r.active[i].node == n {
			return true
		}
	}
	return false
}

// evaluate applies the keywords of a node. Like the compiler's own evaluation it reports nothing else
// about a value of the wrong type, one that is none of enum and const, or of the wrong format.
func (r *run) evaluate(n *node, v uint32, marked *marks) bool {
	is := r.doc.kind(v)
	if n.kinds != 0 && n.kinds&is == 0 && !(n.kinds&integerKind != 0 && is == numberKind && r.isInteger(v)) {
		return r.fail(func() any { return &kind.Type{Got: is.String(), Want: n.types} })
	}
	if n.constant != nil && !r.has(n.constant, v) {
		return r.fail(func() any { return &kind.Const{Want: n.constant.values[0]} })
	}
	if n.enum != nil && !r.has(n.enum, v) {
		return r.fail(func() any { return &kind.Enum{Want: n.enum.values} })
	}
	if n.format != nil && is == stringKind && !r.hasFormat(n.format, v) {
		return r.fail(func() any { return &kind.Format{Want: n.format.name} })
	}
	if n.simple {
		return r.keywords(n, v, is, marked) && r.err == nil
	}
	if !r.charge(stepsPerGroup) {
		return false
	}
	own := marked
	if n.unevaluatedProperties != nil && is == objectKind || n.unevaluatedItems != nil && is == arrayKind {
		own = r.pushMarks(v)
	}
	ok := n.ref == nil || r.applySelf(n.ref, v, own)
	if ok || r.collects() {
		ok = r.keywords(n, v, is, own) && ok
	}
	if ok || r.collects() {
		ok = r.references(n, v, own) && ok
	}
	if ok || r.collects() {
		ok = r.combinations(n, v, own) && ok
	}
	if own != marked {
		if ok || r.collects() {
			ok = r.unevaluated(n, v, own) && ok
		}
		if marked != nil {
			marked.all = true
		}
		r.popMarks(own)
	}
	return ok && r.err == nil
}

// collects reports whether more faults are looked for once one was found.
func (r *run) collects() bool { return r.faults != nil && !r.faults.full() && r.err == nil }

// keywords applies the keywords that are about one type.
func (r *run) keywords(n *node, v uint32, is kinds, marked *marks) bool {
	switch {
	case is == objectKind && n.object != nil:
		return r.object(n.object, v, marked)
	case is == arrayKind && n.array != nil:
		return r.array(n.array, v, marked)
	case is == stringKind && n.text != nil:
		return r.string(n.text, v)
	case is == numberKind && n.number != nil:
		return r.number(n.number, v)
	}
	return true
}

// applySelf applies a node to the value itself. If the node is satisfied, the parts that it has evaluated
// are added to marked.
func (r *run) applySelf(n *node, v uint32, marked *marks) bool {
	if marked == nil || marked.all {
		return r.apply(n, v, nil)
	}
	sub := r.pushMarks(v)
	ok := r.apply(n, v, sub)
	if ok {
		r.charge(len(sub.bits))
		marked.add(sub)
	}
	r.popMarks(sub)
	return ok
}

// satisfies returns the verdict of a node without collecting faults.
func (r *run) satisfies(n *node, v uint32, marked *marks) bool {
	faults := r.faults
	r.faults = nil
	ok := r.applySelf(n, v, marked)
	r.faults = faults
	return ok
}
