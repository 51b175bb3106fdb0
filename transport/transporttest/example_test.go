package transporttest_test

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/transport"
	"github.com/vitrine-mcp/vitrine/transport/transporttest"
)

// A test of an implementation. Here it is the one over a byte stream in memory, which has no
// half-close.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConn(t *testing.T) {
		transporttest.Run(t, func(*testing.T) (transport.Conn, transporttest.Peer) {
			ours, theirs := transport.Memory()
			return transport.Lines(ours), transporttest.Peer{Conn: transport.Lines(theirs)}
		})
	}
	// Output:
}
