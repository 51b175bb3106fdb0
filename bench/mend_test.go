package main

import (
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestApply(t *testing.T) {
	text, err := apply([]byte("one two"), []edit{{"one", "1"}, {"two", "2"}})
	require.NoError(t, err)
	require.Equal(t, "1 2", string(text))
	for _, bad := range []string{"one", "two two one", ""} {
		_, err := apply([]byte(bad), []edit{{"one", "1"}, {"two", "2"}})
		require.ErrorContains(t, err, "not once", bad)
	}
}

// The mended module gives the same answers, and allocates much less for them.
func TestMendedModuleAllocatesLess(t *testing.T) {
	p := plan{
		scenarios: matching(regexp.MustCompile("^" + headline + "$")), kinds: compared(regexp.MustCompile("^gosdk")),
		scale: none(), rounds: 1, slice: time.Millisecond, progress: io.Discard,
	}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	r := report{plan: p, outcome: got}
	released, mended := r.of("gosdk", headline)[0], r.of("gosdk-mended", headline)[0]
	require.Less(t, mended.bytes, released.bytes/2)
}
