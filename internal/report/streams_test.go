package report

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func left(client, via string, ages ...time.Duration) (all []Disconnect) {
	for _, age := range ages {
		all = append(all, Disconnect{Age: age, Client: client, Via: via})
	}
	return all
}

// TestCommonAgeOfDisconnects checks that a cut at a fixed age is found among other disconnects.
func TestCommonAgeOfDisconnects(t *testing.T) {
	const second, milli = time.Second, time.Millisecond
	var all []Disconnect
	for i := range 30 {
		all = append(all, left("desk", "1.1 gateway", 20*second+time.Duration(i*10)*milli)...)
	}
	for range 7 {
		all = append(all, left("ide", "1.1 gateway", 20*second+300*milli)...)
	}
	all = append(all, left("ide", "", second, 3*second, 44*second, 90*second)...)
	d := DisconnectsOf(all, 10*time.Minute, false)
	require.Equal(t, Disconnects{
		WindowSeconds: 600, Count: 41, Same: 37, From: 20, To: 20.3,
		Text: "37 of 41 disconnects in the last 10 minutes were at an age of 20.0 to 20.3 s: something between client and server cuts there " +
			"(via: 1.1 gateway 37; clients: desk 30, ide 7)",
	}, d)

	require.Contains(t, DisconnectsOf(left("desk", "", 20*second, 20*second, 20*second, 20*second, 20*second), time.Minute, false).Text,
		"or the only client does (via: unknown 5; clients: desk 5)")
}

// TestNoCommonAgeOfDisconnects checks that few disconnects, those at all ages, and those of clients that
// leave at once say nothing.
func TestNoCommonAgeOfDisconnects(t *testing.T) {
	require.Equal(t, Disconnects{WindowSeconds: 60}, DisconnectsOf(nil, time.Minute, false))
	require.Empty(t, DisconnectsOf(left("a", "", 20*time.Second, 20*time.Second, 20*time.Second, 20*time.Second), time.Minute, false).Text, "too few")
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all []Disconnect
		for range 5 + random.IntN(100) {
			all = append(all, left("a", "", time.Duration(random.ExpFloat64()*float64(30*time.Second)))...)
		}
		require.Empty(t, DisconnectsOf(all, time.Minute, false).Text)
	}
	var quick []Disconnect
	for range 50 {
		quick = append(quick, left("a", "", 100*time.Millisecond)...)
	}
	require.Empty(t, DisconnectsOf(quick, time.Minute, false).Text)
}
