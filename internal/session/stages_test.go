package session

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newStages returns the stages of a request that arrives now.
func newStages(names ...string) *Stages {
	s := &Stages{}
	s.Begin(&Request{work: work{began: time.Now()}}, names)
	return s
}

// A stage may be entered again before it is left: a middleware may call the handler on two goroutines.
func TestStagesOfConcurrentVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStages("middleware a", StageHandler)
		require.Empty(t, s.In())
		require.Empty(t, maps.Collect(s.Own()))
		time.Sleep(time.Second)
		s.Enter(0)
		require.Equal(t, "middleware a", s.In())
		time.Sleep(time.Second)
		s.Enter(1)
		time.Sleep(2 * time.Second)
		s.Enter(1)
		require.Equal(t, StageHandler, s.In())
		time.Sleep(4 * time.Second)
		took, entered := s.within(1)
		require.True(t, entered)
		require.Equal(t, 6*time.Second+4*time.Second, took, "of both visits")
		s.Leave(1)
		require.Equal(t, StageHandler, s.In())
		s.Leave(1)
		require.Equal(t, "middleware a", s.In())
		time.Sleep(30 * 24 * time.Hour)
		s.Leave(0)
		require.Empty(t, s.In())
		took, _ = s.within(0)
		require.Equal(t, 30*24*time.Hour+7*time.Second, took)
		took, _ = s.within(1)
		require.InDelta(t, 10*time.Second, took, 2)
	})
}

// A visit that takes no time counts as one.
func TestStagesOfNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStages("middleware a", StageHandler)
		for range 1000 {
			s.Enter(0)
			require.Equal(t, "middleware a", s.In())
			s.Leave(0)
		}
		require.Empty(t, s.In())
		own := maps.Collect(s.Own())
		require.Len(t, own, 1)
		require.Less(t, own["middleware a"], time.Microsecond)
	})
}

func TestStagesOfNone(t *testing.T) {
	var s *Stages
	s.Enter(0)
	s.Leave(0)
	require.Empty(t, s.In())
	require.Empty(t, maps.Collect(s.Own()))
}

// BenchmarkStage measures one visit of a stage.
func BenchmarkStage(b *testing.B) {
	s := newStages("middleware a", StageHandler)
	b.ReportAllocs()
	for b.Loop() {
		s.Enter(0)
		s.Leave(0)
	}
}
