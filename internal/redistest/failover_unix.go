//go:build unix

package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Failover is a server with a replica, and a Sentinel that has the replica take the server's place when it does not
// answer for half a second.
type Failover struct {
	Master, Replica, Sentinel *Server
}

// failoverPatience is how long a Failover may take to see each other.
const failoverPatience = time.Minute

// StartFailover runs them, and returns when they have seen each other.
func StartFailover(tb testing.TB, suite string) *Failover {
	tb.Helper()
	f := &Failover{Master: Start(tb, suite)}
	f.Replica = Start(tb, suite, "--replicaof", fmt.Sprintf("127.0.0.1 %d", f.Master.port))
	replica := Dial(tb, f.Replica.Addr())
	await(tb, "a replica of the server", func() bool {
		return strings.Contains(strings.Join(replica.Do("INFO replication"), ""), "master_link_status:up")
	})
	f.Sentinel = StartSentinel(tb, suite, "main", f.Master, 500)
	watch := Dial(tb, f.Sentinel.Addr())
	await(tb, "a Sentinel that knows the replica", func() bool { return len(watch.Do("SENTINEL replicas main")) > 1 })
	return f
}

// URL is that of a store there, without options.
func (f *Failover) URL() string { return "redis+sentinel://" + f.Sentinel.Addr() + "?master_name=main" }

// AwaitCopy waits until the replica has what the server had when AwaitCopy was called.
func (f *Failover) AwaitCopy() {
	tb := f.Master.tb
	tb.Helper()
	want := offset(Dial(tb, f.Master.Addr()))
	replica := Dial(tb, f.Replica.Addr())
	await(tb, "a replica that has all values", func() bool { return offset(replica) >= want })
}

// offset returns how far a server is in the stream of changes.
func offset(s *Shell) (n int64) {
	for line := range strings.Lines(strings.Join(s.Do("INFO replication"), "")) {
		if text, found := strings.CutPrefix(line, "master_repl_offset:"); found {
			_, _ = fmt.Sscan(text, &n)
		}
	}
	return n
}

func await(tb testing.TB, what string, check func() bool) {
	tb.Helper()
	for began := time.Now(); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > failoverPatience {
			tb.Fatalf("after %v there is no %s", failoverPatience, what)
		}
	}
}
