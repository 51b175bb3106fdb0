package session

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// FuzzSession runs scripts of events against the core, with the invariants of
// docs/session-core.md as the oracle. The first byte of the input holds options,
// the second the seed of the schedule; then each event takes three: what (the
// high bit: in a rush), to whom, and how.
func FuzzSession(f *testing.F) {
	for _, s := range seedScripts {
		f.Add(s.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if faults := runScript(t, data); len(faults) > 0 {
			t.Fatalf("%s\n%s", strings.Join(faults, "\n"), describe(data))
		}
	})
}

// TestRandomScripts runs scripts from seeds, so that each test run has some.
func TestRandomScripts(t *testing.T) {
	if *scriptSeed != 0 {
		runSeed(t, *scriptSeed)
		return
	}
	n := 250
	if needs.Short(t, "session/most random scripts") {
		n = 100
	}
	for range n {
		runSeed(t, rand.Uint64())
	}
}

var scriptSeed = flag.Uint64("script.seed", 0, "the one seed of TestRandomScripts")

func runSeed(t *testing.T, seed uint64) {
	data := randomScript(seed)
	if faults := runScript(t, data); len(faults) > 0 {
		data, faults = shrink(t, data, faults)
		t.Fatalf("replay with -args -script.seed=%d\n%s\n%s", seed, strings.Join(faults, "\n"), describe(data))
	}
}

// shrink takes events out of a script as long as it still fails.
func shrink(t *testing.T, data []byte, faults []string) ([]byte, []string) {
	for i := len(data) - 3; i >= 2; i -= 3 {
		shorter := slices.Delete(slices.Clone(data), i, i+3)
		if f := runScript(t, shorter); len(f) > 0 {
			data, faults = shorter, f
		}
	}
	return data, faults
}

// randomScript makes a script from a seed.
func randomScript(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, 2+3*(20+rnd.IntN(maxEvents-20)))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	if rnd.IntN(2) == 0 { // no rush
		for i := 2; i < len(data); i += 3 {
			data[i] &= 0x7f
		}
	}
	return data
}

// describe prints a script for people.
func describe(data []byte) string {
	var b strings.Builder
	if len(data) > 1 {
		fmt.Fprintf(&b, "options %08b, schedule %d\n", data[0], data[1])
	}
	for i := 2; i+2 < len(data) && i < 2+3*maxEvents; i += 3 {
		rush := ""
		if data[i]&0x80 != 0 {
			rush = ", at once:"
		}
		fmt.Fprintf(&b, "%s %d %d%s\n", fuzzEvents[data[i]&0x7f].name, data[i+1], data[i+2], rush)
	}
	return b.String()
}

// A seedScript is a script written by hand: an option byte, and events as name,
// to whom, how.
type seedScript struct {
	options byte
	events  []seedEvent
}

type seedEvent struct {
	name string
	a, b byte
}

func (s *seedScript) encode() []byte {
	data := []byte{s.options, 7}
	for _, e := range s.events {
		op := slices.IndexFunc(fuzzEvents[:], func(k eventKind) bool { return k.name == e.name })
		if op < 0 {
			panic("no event " + e.name)
		}
		data = append(data, byte(op), e.a, e.b)
	}
	return data
}
