package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// stackOf returns a stack with these names.
func stackOf(quoted ...string) *nameStack {
	var frame strings.Builder
	var spans []span
	for _, q := range quoted {
		start := frame.Len()
		frame.WriteString(q)
		spans = append(spans, span{start, frame.Len()})
	}
	n := &nameStack{frame: []byte(frame.String())}
	for i, q := range quoted {
		n.push(spans[i], strings.Contains(q, `\`))
	}
	return n
}

// A hostile object has as many names as fit into a frame. The number of comparisons must grow
// linearly with the number of names.
func TestComparisonsGrowWithTheNumberOfNames(t *testing.T) {
	for _, count := range []int{0, 1, 2, maxPairwise - 1, maxPairwise, maxPairwise + 1, 2 * maxPairwise, 1000, 100_000} {
		for kind, format := range map[string]string{
			"short": `"%d"`, "of one length": `"%08d"`, "of one beginning": `"` + strings.Repeat("x", 40) + `%08d"`, "escaped": `"\u0061%d"`,
		} {
			quoted := make([]string, count)
			for i := range quoted {
				quoted[i] = fmt.Sprintf(format, i)
			}
			n := stackOf(quoted...)
			distinct, comparisons := n.distinct(n.names)
			if limit := maxPairwise / 2 * count; !distinct || comparisons > limit {
				t.Fatalf("%d names, %s: distinct %t after %d comparisons, want at most %d", count, kind, distinct, comparisons, limit)
			}
		}
	}
}

// Two equal names are found wherever they stand.
func TestEqualNamesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for count := 2; count <= 4*maxPairwise; count++ {
		for range 50 {
			quoted := make([]string, count)
			for i := range quoted {
				quoted[i] = fmt.Sprintf([]string{`"%d"`, `"\u0061%d"`, `"%daaaaa"`}[r.IntN(3)], i)
			}
			if n := stackOf(quoted...); !n.popDistinct(nameMark{}) {
				t.Fatalf("%q are distinct", quoted)
			}
			a, b := r.IntN(count), r.IntN(count)
			for a == b {
				b = r.IntN(count)
			}
			quoted[a], quoted[b] = `"same"`, []string{`"same"`, `"s\u0061me"`}[r.IntN(2)]
			if n := stackOf(quoted...); n.popDistinct(nameMark{}) {
				t.Fatalf("%q are not distinct", quoted)
			}
		}
	}
}

// The memory for the names of an object is used again for the next one.
func TestNamesReuseTheirMemory(t *testing.T) {
	object := func(members int) string {
		var b strings.Builder
		for i := range members {
			fmt.Fprintf(&b, `%c"n%d":0`, "{,"[min(i, 1)], i)
		}
		return b.String() + "}"
	}
	frame := []byte(`{"a":[` + strings.Repeat(object(2*maxPairwise)+",", 100) + `{}]}`)
	s := new(scanner)
	allocations := testing.AllocsPerRun(10, func() {
		s.begin(frame, maxNesting)
		if !s.message() {
			t.Fatal("refused")
		}
		s.reset()
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
