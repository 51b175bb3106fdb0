// Package transporttest checks that an implementation of [transport.Conn] keeps the promises
// that its documentation names. An implementer calls [Run] in a test of his own:
//
//	func TestConn(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
//			ours, theirs := dial(t)
//			return newConn(ours), transporttest.Peer{Conn: newConn(theirs), HalfClose: theirs.CloseWrite}
//		})
//	}
//
// Run such a test with the race detector, too.
package transporttest
