package telemetry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestStormOfStreamsKeepsThoseOfOthers checks that a client that opens and closes streams all the time does not
// push out the streams of other clients, nor those of another version of itself.
func TestStormOfStreamsKeepsThoseOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		end := func(name, version string) {
			r.tel.ExchangeEnded(Info{Client: &mcp.Implementation{Name: name, Version: version}}, nil,
				session.StreamStanding, session.StreamPeerLeft, time.Second)
			time.Sleep(time.Millisecond)
		}
		end("desk", "4.2.9")
		end("ide", "1.0")
		end("ide", "1.0")
		for range 10 * maxEndedStreams {
			end("desk", "4.3.0")
		}
		end("ide", "1.0")
		frame := newFrameMaker(r.tel).next()
		require.Equal(t, maxEndedStreams, len(frame.EndedStreams.Rows)+frame.EndedStreams.LeftOut)
		kept := r.tel.report().EndedStreams
		require.Len(t, kept, maxEndedStreams)
		counts := map[string]int{}
		for i := range kept {
			counts[kept[i].Client+" "+kept[i].ClientVersion]++
			require.False(t, i > 0 && kept[i].At.After(kept[i-1].At), "the newest are first")
		}
		require.Equal(t, map[string]int{"desk 4.2.9": 1, "ide 1.0": 3, "desk 4.3.0": maxEndedStreams - 4}, counts)
		require.WithinDuration(t, time.Now(), kept[1].At, 2*time.Millisecond+1, "the latest of the storm are there")
	})
}

// TestEndedStreamsOfManyCallers compares the rows with those of a plain list, for random callers.
func TestEndedStreamsOfManyCallers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var e endedStreams
		var plain []report.EndedStream
		callers := 1 + random.IntN(2*maxEndedStreams)
		for i := range 4 * maxEndedStreams {
			caller := min(int(random.ExpFloat64()*float64(callers)/4), callers)
			row := report.EndedStream{Client: fmt.Sprint(caller), AgeSeconds: float64(i)}
			e.add(&row)
			plain = append(plain, row)
			if len(plain) > maxEndedStreams {
				plain = withoutOldestOfLargest(plain)
			}
		}
		all := e.all()
		require.Len(t, all, len(plain))
		for i := range all {
			require.Equal(t, plain[len(plain)-1-i], all[i])
		}
	}
}

// withoutOldestOfLargest removes the oldest row of the caller with the most; of several such callers, of that one
// whose oldest row is the oldest.
func withoutOldestOfLargest(rows []report.EndedStream) []report.EndedStream {
	counts, most := map[string]int{}, 0
	for i := range rows {
		counts[rows[i].Client]++
		most = max(most, counts[rows[i].Client])
	}
	for i := range rows {
		if counts[rows[i].Client] == most {
			return append(rows[:i], rows[i+1:]...)
		}
	}
	return rows
}
