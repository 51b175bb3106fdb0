package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What happens before a subscription is acknowledged waits until then, and what happens
// after its end is for nobody.
func TestWitnessWaitsForItsFirstSend(t *testing.T) {
	var told []string
	w := newWitness(plainServer().core, func(what happening, done func()) {
		told = append(told, what.method)
		if done != nil {
			done()
		}
	})
	var h happenings
	leave := h.join(w, []string{"com.example/thing"})
	h.tell("com.example/thing", happening{method: "x/1"})
	h.tell("com.example/thing", happening{method: "x/2"})
	require.Empty(t, told)
	w.send()
	require.Equal(t, []string{"x/1", "x/2"}, told)
	h.tell("com.example/thing", happening{method: "x/3"})
	require.Equal(t, []string{"x/1", "x/2", "x/3"}, told)
	leave()
	h.tell("com.example/thing", happening{method: "x/4"})
	require.False(t, w.note(happening{method: "x/5"}), "it has left")
	require.Len(t, told, 3)
	require.Empty(t, h.witnesses)
}
