package changes

import (
	"fmt"
	"testing"
)

// BenchmarkFind measures a search of what a busy server did in an hour, and the memory that the next one takes.
func BenchmarkFind(b *testing.B) {
	for _, keys := range []int{50, 200} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			s, now := busy(DefaultBytes, keys)
			var h History
			s.Fill(&h, Step(now), 720)
			b.ReportAllocs()
			for b.Loop() {
				s.Fill(&h, Step(now), 720)
				Find(&h)
			}
		})
	}
}
