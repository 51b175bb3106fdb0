package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// BenchmarkSessionAtTheCap opens sessions that each evict another one: of one address, and each of
// another address.
func BenchmarkSessionAtTheCap(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		for _, addresses := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("of %d, %d addresses", size, addresses), func(b *testing.B) {
				c := New(Config{Dispatcher: &costWorld{}, Limits: limits.Limits{MaxSessions: size, SessionIdle: time.Hour}})
				n := 0
				open := func() {
					n++
					conn := from(fmt.Sprintf("10.0.%d.%d", n%addresses/256, n%addresses%256))
					s, _, err := c.Open(conn, fmt.Sprint(n))
					if err != nil {
						b.Fatal(err)
					}
					s.Initialize(&Peer{Version: mcp.Version20251125})
					s.Initialized()
				}
				for range size {
					open()
				}
				for b.Loop() {
					open()
				}
			})
		}
	}
}
