package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeletedSessionsAreForgottenAtTheirEnds(t *testing.T) {
	var d deleted
	now := time.Unix(1000, 0)
	const caller = 1
	for i := range 10 {
		require.False(t, d.add(fmt.Sprint(i), caller, now.Add(time.Duration(i)*time.Second), now.Add(time.Duration(i+5)*time.Second), 100))
	}
	require.Len(t, d.ends, 5)
	require.False(t, d.has("4"), "its id has ended")
	require.True(t, d.has("5"))
	require.False(t, d.add("late", caller, now, now, 100))
	require.False(t, d.has("late"), "its id had ended already")
	require.False(t, d.add("9", caller, now, now.Add(time.Hour), 100))
	require.Len(t, d.ends, 5, "a second time")
}

func TestCallerThatDeletesMostForgetsFirst(t *testing.T) {
	var d deleted
	now := time.Unix(1000, 0)
	callers := map[string]uint64{"ann": 1, "bob": 2, "eve": 3}
	add := func(name string, i int) bool {
		return d.add(fmt.Sprint(name, i), callers[name], now, now.Add(time.Hour), 6)
	}
	for i := range 2 {
		require.False(t, add("ann", i))
		require.False(t, add("bob", i))
	}
	for i := range 100 {
		require.Equal(t, i > 1, add("eve", i))
	}
	for _, id := range []string{"ann0", "ann1", "bob0", "bob1", "eve98", "eve99"} {
		require.True(t, d.has(id), id)
	}
	require.Len(t, d.ends, 6)
	require.Len(t, d.callers, 3)
	require.Equal(t, 3, d.largest.Len())
}

// A deletion that is forgotten while the store is being told of it goes from the store, too.
func TestDeletionThatIsForgottenBeforeTheStoreKnows(t *testing.T) {
	var d deleted
	now := time.Unix(1000, 0)
	for _, id := range []string{"first", "second"} {
		d.add(id, 0, now, now.Add(time.Hour), 1)
	}
	d.noteTold("second", true)
	require.Empty(t, d.takeGone())
	d.noteTold("first", true)
	require.Equal(t, []string{"first"}, d.takeGone())
	d.noteTold("first", false)
	require.Empty(t, d.takeGone(), "the store does not have it")
}
