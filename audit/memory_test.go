package audit

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A full queue takes no more than MaxBytes says.
func TestFullQueuesFitIntoTheirBytes(t *testing.T) {
	for name, text := range map[string]int{"many small records": 20, "large records": 2000} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			hangs := func(_ context.Context, entries []Entry) (int, error) {
				<-gate
				return len(entries), nil
			}
			one, two := &memory{name: "one"}, &memory{name: "two"}
			one.instead, two.instead = hangs, hangs
			before := heap()
			l := newLog(t, Config{Sinks: []Sink{one, two}})
			for i := 0; l.Stats()[0].Lost[LostFull] == 0; i++ {
				r := called(strings.Repeat("x", text))
				r.RequestID = fmt.Sprint(strings.Repeat("y", text), i)
				l.Add(r)
			}
			took := heap() - before
			t.Logf("%d records take %.1f MiB of %.1f", l.Stats()[0].Waiting, float64(took)/(1<<20), float64(l.MaxBytes())/(1<<20))
			require.LessOrEqual(t, took, l.MaxBytes())
			require.Greater(t, took, l.MaxBytes()/3)
			close(gate)
			require.NoError(t, l.Close(t.Context()))
		})
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
