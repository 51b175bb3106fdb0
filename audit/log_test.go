package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordsAreWrittenInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		l := newLog(t, Config{Sinks: []Sink{sink}})
		for i := range 1000 {
			l.Add(called(fmt.Sprintf("tool%d", i)))
		}
		time.Sleep(time.Second)
		lines := sink.all()
		require.Len(t, lines, 1000)
		for i, line := range lines {
			require.Contains(t, line, fmt.Sprintf(`"target":"tool%d"`, i))
		}
		require.Equal(t, SinkStats{Sink: "memory", Written: 1000, Lost: map[string]uint64{}, MaxRecords: 32 << 10}, l.Stats()[0])
		require.NoError(t, l.Close(t.Context()))
		require.True(t, sink.closed)
		require.NoError(t, l.Close(t.Context()), "twice")
	})
}

// A sink that hangs loses records beyond the bounds, counted, and delays neither a call nor another
// sink. When it goes on, a record tells how many were lost.
func TestHangingSinkHurtsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		stuck, other := &memory{name: "stuck"}, &memory{name: "other"}
		stuck.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			stuck.keep(entries)
			return len(entries), nil
		}
		l := newLog(t, Config{Sinks: []Sink{stuck, other}, MaxRecords: 10})
		began := time.Now()
		for i := range 25 {
			l.Add(called(fmt.Sprint("tool", i)))
			synctest.Wait() // what is not stuck takes its record
			time.Sleep(writePause)
		}
		require.Equal(t, 25*writePause, time.Since(began), "no call has waited")
		time.Sleep(time.Second)
		require.Len(t, other.all(), 25)
		state := l.Stats()[0]
		require.Equal(t, map[string]uint64{"queue_full": 15}, state.Lost)
		require.Equal(t, 10, state.Waiting)
		require.Equal(t, time.Second+25*writePause, state.Stalled)
		close(gate)
		time.Sleep(time.Second)
		lines := stuck.all()
		require.Len(t, lines, 11)
		require.Contains(t, lines[10], `"operation":"audit/lost"`)
		require.Contains(t, lines[10], `"count":15`)
		require.Zero(t, l.Stats()[0].Stalled)
		require.NoError(t, l.Close(t.Context()))
	})
}

// The bytes of a queue are bounded, too, and come back.
func TestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		sink := &memory{}
		sink.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			return len(entries), nil
		}
		l := newLog(t, Config{Sinks: []Sink{sink}, MaxBytes: 10 * (recordBytes + len("tools/call") + 100)})
		l.Add(called(strings.Repeat("x", 100)))
		synctest.Wait() // the writer hangs with this record, and takes none of the others
		for range 24 {
			l.Add(called(strings.Repeat("x", 100)))
		}
		require.Equal(t, uint64(15), l.Stats()[0].Lost[LostFull])
		require.Equal(t, 10*(recordBytes+len("tools/call")+100), l.Stats()[0].Bytes)
		close(gate)
		time.Sleep(time.Second)
		require.Zero(t, l.Stats()[0].Bytes)
		require.NoError(t, l.Close(t.Context()))
	})
}

// A strict log has a place for each call that it lets pass: none is lost.
func TestStrictLogLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		stuck, other := &memory{name: "stuck"}, &memory{name: "other"}
		stuck.instead = func(_ context.Context, entries []Entry) (int, error) {
			<-gate
			stuck.keep(entries)
			return len(entries), nil
		}
		l := newLog(t, Config{Sinks: []Sink{other, stuck}, Strict: true, MaxRecords: 10})
		require.True(t, l.Strict())
		var passed int
		for range 25 {
			if l.Reserve() {
				passed++
			}
		}
		require.Equal(t, 10, passed)
		l.Release()
		require.True(t, l.Reserve(), "a place that is given back is free")
		for range 10 {
			l.Add(called("unreserved")) // finds no room
			l.AddReserved(called("reserved"))
		}
		time.Sleep(time.Second)
		require.False(t, l.Reserve())
		require.Equal(t, uint64(16), l.Stats()[0].Refused+l.Stats()[1].Refused)
		require.Zero(t, l.Stats()[0].Reserved, "the other queue has its place back")
		close(gate)
		time.Sleep(time.Second)
		require.Equal(t, 10, strings.Count(strings.Join(stuck.all(), ""), `"target":"reserved"`))
		require.True(t, l.Reserve())
		l.Release()
		require.NoError(t, l.Close(t.Context()))
		require.False(t, l.Reserve(), "closed")
	})
}

// What a sink has not taken comes again, with the same lines: the chain stays whole.
func TestFailedWritesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		tries, gate := 0, make(chan struct{})
		sink.instead = func(_ context.Context, entries []Entry) (int, error) {
			switch tries++; tries {
			case 1:
				<-gate
			case 2:
				return 0, errors.New("disk full")
			case 3:
				panic("broken")
			case 4:
				sink.keep(entries[:1])
				return 1, errors.New("disk full")
			case 5:
				return 0, nil
			}
			sink.keep(entries)
			return len(entries), nil
		}
		l := newLog(t, Config{Sinks: []Sink{sink}, Key: testKey})
		l.Add(called("first"))
		synctest.Wait()
		for i := range 5 { // they come at once, because the sink is still writing
			l.Add(called(fmt.Sprint("tool", i)))
		}
		close(gate)
		time.Sleep(time.Minute)
		require.NoError(t, l.Close(t.Context()))
		require.Len(t, sink.all(), 6)
		require.Equal(t, uint64(4), l.Stats()[0].Failures)
		require.Empty(t, verify(t, sink.lines).Faults)
	})
}

// Close writes what waits, and gives up when its context ends: it says how many records were lost.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, write := range map[string]func(context.Context, []Entry) (int, error){
			"obeys": hang,
			"fails": func(context.Context, []Entry) (int, error) { return 0, errors.New("disk full") },
			"deaf": func(context.Context, []Entry) (int, error) {
				time.Sleep(time.Hour)
				return 0, nil
			},
		} {
			sink := &memory{instead: write}
			l := newLog(t, Config{Sinks: []Sink{sink}})
			for range 3 {
				l.Add(called("echo"))
			}
			l.AddRefusal(Record{Time: time.Now(), Stage: StageToken})
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			require.ErrorContains(t, l.Close(ctx), "4 records", name)
			cancel()
			if name == "obeys" {
				require.True(t, sink.closed, "a sink that obeys is closed when Close returns")
			}
			require.LessOrEqual(t, time.Since(began), 3*time.Second, name)
			l.Add(called("late"))
			require.Equal(t, uint64(1), l.Stats()[0].Lost[LostClosed])
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.True(t, sink.closed, name)
		}
	})
}

// Every record is written or counted as lost, however many callers add records while the log is closed.
func TestRecordsAreConserved(t *testing.T) {
	for _, strict := range []bool{false, true} {
		sink := &memory{}
		l := newLog(t, Config{Sinks: []Sink{sink}, Strict: strict, MaxRecords: 50, Key: testKey})
		const workers, each = 8, 500
		var wg sync.WaitGroup
		var mu sync.Mutex
		added := 0
		for range workers {
			wg.Go(func() {
				for i := range each {
					if strict {
						if !l.Reserve() {
							continue
						}
						l.AddReserved(called("echo"))
					} else {
						l.Add(called("echo"))
					}
					mu.Lock()
					added++
					mu.Unlock()
					if i%50 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		if !strict {
			require.NoError(t, l.Close(t.Context())) // while records come
		}
		wg.Wait()
		require.NoError(t, l.Close(t.Context()))
		state := l.Stats()[0]
		marks, written := 0, 0
		for _, line := range sink.lines {
			if strings.Contains(line, `"operation":"audit/`) {
				marks++
			} else {
				written++
			}
		}
		lost := int(state.Lost[LostFull] + state.Lost[LostClosed])
		require.Equal(t, added, written+lost, "strict: %v", strict)
		require.Equal(t, int(state.Written), written+marks)
		if strict {
			require.Zero(t, lost)
		}
		require.Zero(t, state.Waiting)
		require.Zero(t, state.Reserved)
		require.Empty(t, verify(t, sink.lines).Faults)
	}
}

// unprintable is a sink with a name that cannot be a label.
type unprintable struct{ *memory }

func (unprintable) Name() string { return "\xff" }

func TestBadConfigurations(t *testing.T) {
	sink := &memory{}
	for text, c := range map[string]Config{
		"no sink":           {},
		"a sink is nil":     {Sinks: []Sink{nil}},
		"two sinks":         {Sinks: []Sink{sink, sink}},
		"is not UTF-8":      {Sinks: []Sink{unprintable{sink}}},
		"at least 32":       {Sinks: []Sink{sink}, Key: []byte("short")},
		"must not be negat": {Sinks: []Sink{sink}, MaxBytes: -1},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, text)
	}
}

// A nil log takes nothing, and refuses nothing.
func TestNilLog(t *testing.T) {
	var l *Log
	l.Add(called("echo"))
	l.AddRefusal(called("echo"))
	require.True(t, l.Reserve())
	l.Release()
	require.False(t, l.Strict())
	require.Nil(t, l.Stats())
	require.NoError(t, l.Close(t.Context()))
}
