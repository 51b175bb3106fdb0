// Package transporttest checks that an implementation of [transport.Conn] keeps the promises
// of its documentation. Call [Run] in a test of the implementation:
//
//	func TestConn(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
//			ours, theirs := dial(t)
//			return newConn(ours), transporttest.Peer{Conn: newConn(theirs), HalfClose: theirs.CloseWrite}
//		})
//	}
//
// Run such a test with the race detector as well.
package transporttest
