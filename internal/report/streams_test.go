package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// left returns disconnects of a client, whose version may follow its name.
func left(client, via string, ages ...time.Duration) (all []Disconnect) {
	name, version, _ := strings.Cut(client, " ")
	for _, age := range ages {
		all = append(all, Disconnect{Age: age, Client: name, ClientVersion: version, Via: via})
	}
	return all
}

// TestCommonAgeOfDisconnects checks that a cut at a fixed age is found among other disconnects.
func TestCommonAgeOfDisconnects(t *testing.T) {
	const second, milli = time.Second, time.Millisecond
	var all []Disconnect
	for i := range 30 {
		all = append(all, left("desk 4.3.0", "1.1 gateway", 20*second+time.Duration(i*10)*milli)...)
	}
	for range 7 {
		all = append(all, left("ide 1.0", "1.1 gateway", 20*second+300*milli)...)
	}
	all = append(all, left("desk 4.2.9", "", second, 3*second, 44*second, 90*second)...)
	d := DisconnectsOf(all, 10*time.Minute, false)
	require.Equal(t, Disconnects{
		WindowSeconds: 600, Count: 41, Same: 37, From: 20, To: 20.3,
		Text: "37 of 41 disconnects in the last 10 minutes were at an age of 20.0 to 20.3 s: something between client and server cuts there " +
			"(via: 1.1 gateway 37; clients: desk 4.3.0 30, ide 1.0 7)",
		Clients: []DisconnectedClient{
			{Client: "desk", ClientVersion: "4.3.0", Count: 30, Same: 30},
			{Client: "ide", ClientVersion: "1.0", Count: 7, Same: 7},
			{Client: "desk", ClientVersion: "4.2.9", Count: 4},
		},
	}, d)

	require.Contains(t, DisconnectsOf(left("desk", "", 20*second, 20*second, 20*second, 20*second, 20*second), time.Minute, false).Text,
		"or the only client does (via: unknown 5; clients: desk 5)")
	both := append(left("desk 1", "", 20*second, 20*second, 20*second), left("desk 2", "", 20*second, 20*second)...)
	require.Contains(t, DisconnectsOf(both, time.Minute, false).Text, "or the only client does (via: unknown 5; clients: desk 1 3, desk 2 2)")
}

// TestClientsOfDisconnects checks that the versions of clients with the most disconnects are listed, and how
// many are not, although there is no common age.
func TestClientsOfDisconnects(t *testing.T) {
	var all []Disconnect
	for i := range maxDisconnected + 2 {
		for range i + 1 {
			all = append(all, left(fmt.Sprintf("desk 1.%d", i), "", time.Second)...)
		}
	}
	d := DisconnectsOf(all, time.Minute, false)
	require.Len(t, d.Clients, maxDisconnected)
	require.Equal(t, DisconnectedClient{Client: "desk", ClientVersion: "1.11", Count: 12}, d.Clients[0])
	require.Equal(t, 2, d.ClientsLeftOut)
	var text strings.Builder
	(&Requests{Disconnects: d}).writeStreams(&text)
	require.Regexp(t, `(?m)^DISCONNECTS +SAME AGE +CLIENT +VERSION\n12 +0 +desk +1\.11\n11 +0 +desk +1\.10$`, text.String())
}

// TestTextOfEndedStreamsHasAllCallers checks that the text form, which has few streams, has some of each caller.
func TestTextOfEndedStreamsHasAllCallers(t *testing.T) {
	rep := &Requests{}
	for range 100 {
		rep.EndedStreams = append(rep.EndedStreams, EndedStream{Kind: "session", Client: "storm"})
	}
	rep.EndedStreams = append(rep.EndedStreams, EndedStream{
		Kind: "answer", Reason: "peer_left", Client: "desk", ClientVersion: "4.3.0", Tool: "report", RequestID: "7", TraceID: "4bf92f35",
	})
	var text strings.Builder
	rep.writeStreams(&text)
	require.Equal(t, len(rep.EndedStreams)-maxStreamsShown, InTurns(rep.EndedStreams).LeftOut)
	require.Equal(t, maxStreamsShown-1, strings.Count(text.String(), "storm"))
	require.Regexp(t, `(?m)^STREAM +ENDED +AT +LIVED +TOOL +ID +TRACE +CLIENT +VERSION .*$`, text.String())
	require.Regexp(t, `(?m)^answer +peer_left .* report +7 +4bf92f35 +desk +4\.3\.0 .*$`, text.String())
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
