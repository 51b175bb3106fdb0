package evaluate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Bounds on findings. A value can have millions of faults, and paths as long as itself.
const (
	// MaxFindings is how many findings one validation returns. It looks for no more.
	MaxFindings = 32
	maxCauses   = 32  // of one finding, with the causes of causes
	maxToken    = 512 // bytes of a name
)

// A Finding is one thing that is wrong with a value.
type Finding struct {
	// At has the names and positions that lead to the value: from the root, or of a cause from the
	// value of the finding. A name longer than 512 bytes is cut.
	At []string
	// Kind is a pointer to a type of the compiler's package kind, or to [Contained]. The fields about
	// the value are not set where they could be large.
	Kind any
	// Name is the property, of kinds that are about one.
	Name string
	// Causes say why no alternative of anyOf or oneOf is satisfied, or why a name is not allowed.
	Causes []Finding
}

// Contained is the kind of minContains, and of maxContains if AtMost is true.
type Contained struct {
	Want, Got int
	AtMost    bool
}

// Sort orders findings by their paths, then by names.
func Sort(findings []Finding) {
	order.By(findings, func(a, b *Finding) bool {
		return cmp.Or(slices.CompareFunc(a.At, b.At, compareTokens), strings.Compare(a.Name, b.Name)) < 0
	})
}

// compareTokens orders positions as numbers and everything else as text.
func compareTokens(a, b string) int {
	i, okA := position(a)
	j, okB := position(b)
	if okA && okB {
		return cmp.Compare(i, j)
	}
	return strings.Compare(a, b)
}

// position reads a position. An error of package strconv would allocate memory.
func position(token string) (n int, ok bool) {
	if token == "" || len(token) > 18 {
		return 0, false
	}
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// A collector has the findings of one validation, or the causes of one finding.
type collector struct {
	findings []Finding
	room     *int // findings that may still be added; causes of causes share it
	more     bool // there was one without room
	causes   bool // these are causes
}

func newCollector(room int) *collector { return &collector{room: &room} }

func (c *collector) full() bool { return c.more }

func (c *collector) add(f Finding) {
	if *c.room == 0 {
		c.more = true
		return
	}
	*c.room--
	c.findings = append(c.findings, f)
}

// result returns the findings in order, and whether there were more.
func (c *collector) result() ([]Finding, bool) {
	Sort(c.findings)
	return c.findings, c.more
}

// A token is one step of a path: the entry of a name, or 0 and the position of an item.
type token struct {
	name     uint32
	position int
}

// fail adds a finding about the value that is evaluated, if findings are collected. It returns false.
func (r *run) fail(kind func() any) bool {
	if r.collects() {
		r.faults.add(Finding{At: r.at(), Kind: kind()})
	}
	return false
}

// failProperty is fail for a kind that is about one property.
func (r *run) failProperty(name string, kind func() any) bool {
	if r.collects() {
		r.faults.add(Finding{At: r.at(), Kind: kind(), Name: name})
	}
	return false
}

// at returns the path of the value that is evaluated, from r.base on.
func (r *run) at() []string {
	path := r.path[r.base:]
	tokens := make([]string, len(path))
	for i, t := range path {
		if t.name == 0 {
			tokens[i] = strconv.Itoa(t.position)
		} else {
			tokens[i] = r.name(t.name)
		}
	}
	return tokens
}

// name returns the text of a name, which it cuts.
func (r *run) name(entry uint32) string {
	text := r.doc.text(entry)
	if len(text) > maxToken {
		cut := maxToken
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	r.charge(len(text) / bytesPerStep)
	return string(text)
}

// causes collects why a value satisfies none of several nodes, one after the other.
func (r *run) causes(nodes []*node, v uint32) (all []Finding) {
	outer := r.faults
	room := maxCauses
	inner := &collector{room: &room, causes: true}
	if outer.causes {
		inner.room = outer.room
	}
	base := r.base
	r.base = len(r.path)
	for _, n := range nodes {
		inner.findings = nil
		if r.faults = inner; r.collects() {
			r.apply(n, v, nil)
		}
		Sort(inner.findings)
		all = append(all, inner.findings...)
	}
	r.faults, r.base = outer, base
	return all
}

// failAlternatives adds the finding that none of the nodes is satisfied.
func (r *run) failAlternatives(kind any, nodes []*node, v uint32) bool {
	if !r.collects() {
		return false
	}
	r.faults.add(Finding{At: r.at(), Kind: kind, Causes: r.causes(nodes, v)})
	return false
}

// failName adds the finding that the name of a member is not allowed.
func (r *run) failName(rule *node, entry uint32) bool {
	if !r.collects() {
		return false
	}
	name := r.name(entry)
	r.faults.add(Finding{At: r.at(), Kind: &kind.PropertyNames{Property: name}, Name: name, Causes: r.causes([]*node{rule}, entry)})
	return false
}
