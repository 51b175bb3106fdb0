package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/internal/ratiotest"
	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

const (
	// callsOfRound are so few that the calls for which a server waits, until it counts the store as away, are more
	// than one in a hundred.
	callsOfRound = 100
	// hopeless is far above what a busy machine shows. A server that waits for the store shows hundreds, and takes half a
	// minute for each round, so that a few of them are enough.
	hopeless, hopelessRounds = 50, 5
)

// frozenFlag is 3 because a machine that does other things meanwhile has shown 1.5. A call that waits for the store takes
// as long as its time-out, which is far more.
var (
	frozenFlag = flag.Float64("frozen", 3, "how many `times` as long a plain call may take, at the 99th percentile, while the store "+
		"does not answer; 1.2 holds on a quiet machine, or in some hundred rounds")
	frozenRounds = flag.Int("frozen.rounds", 0, "in how many rounds TestPlainCallsNeedNoStore compares; 0 is as many as it takes")
)

// Plain calls send the store no command, and are as fast while it does not answer.
func TestPlainCallsNeedNoStore(t *testing.T) {
	redis := startStore(t)
	all := replicas(t, 3, sealed, withStore(redis.Addr()))
	callers := []*plainCaller{newPlainCaller(t, inTurns(t, all), false), newPlainCaller(t, inTurns(t, all), true)}
	for _, c := range callers {
		c.calls(t, callsOfRound) // each server has seen the session then
	}
	t.Run("no command", func(t *testing.T) { checkCommands(t, redis, callers) })
	t.Run("no wait", func(t *testing.T) { checkWaits(t, redis, all, callers) })
}

// A plainCaller calls one tool over one connection.
type plainCaller struct {
	front  *server
	client *http.Client
	header http.Header
	frame  string
	kind   string
	ratios ratiotest.Ratios
}

func newPlainCaller(t *testing.T, front *server, legacy bool) *plainCaller {
	c := &plainCaller{front: front, client: httpClient(t), kind: "modern", header: echoX(1).headers(), frame: echoX(1).frame()}
	if legacy {
		c.kind, c.header, c.frame = "legacy", front.initialize(t).headers(), echoX(1).inLegacy().frame()
	}
	return c
}

// calls calls n times, and returns how long the calls took at the 99th percentile.
func (c *plainCaller) calls(t *testing.T, n int) (p99 time.Duration) {
	t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		a, err := c.front.trySend(t.Context(), c.client, http.MethodPost, c.header.Clone(), c.frame)
		took[i] = time.Since(began)
		if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, `\"x\"`) {
			t.Fatalf("a %s call: %d %s %v", c.kind, a.status, a.body, err)
		}
	}
	slices.Sort(took)
	return took[(99*n+99)/100-1]
}

// notCounted are the commands that are no use of the store: those of the test, and signs of life of subscriptions.
var notCounted = []string{"info", "hello", "auth", "client|setinfo", "ping"}

// commands returns how many commands the store has executed, by name.
func commands(t *testing.T, store *redistest.Server) map[string]int {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: store.Addr(), Username: storeUser, Password: storePassword})
	defer client.Close()
	info, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(info) {
		var n int
		name, figures, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if _, err := fmt.Sscanf(figures, "calls=%d,", &n); err == nil && !slices.Contains(notCounted, name) {
			counts[name] = n
		}
	}
	return counts
}

// checkCommands counts the commands of many calls.
func checkCommands(t *testing.T, store *redistest.Server, callers []*plainCaller) {
	const calls = 500
	before := commands(t, store)
	for _, c := range callers {
		c.calls(t, calls)
	}
	if after := commands(t, store); !maps.Equal(before, after) {
		t.Errorf("before %d calls the store had executed %v, and then %v", len(callers)*calls, before, after)
	}
}

// checkWaits compares calls with the store and while it is frozen, in turns.
func checkWaits(t *testing.T, store *redistest.Server, all []*server, callers []*plainCaller) {
	for _, c := range callers {
		within := false
		for known := false; !known; {
			c.compare(t, store, all, len(c.ratios)%2 == 0)
			within, known = c.ratios.Within(*frozenFlag, *frozenRounds)
			known = known || len(c.ratios) >= hopelessRounds && c.ratios.Median() > hopeless
		}
		t.Logf("%s calls at the 99th percentile, while the store is frozen: %.2f times as long, the median of %d rounds", c.kind, c.ratios.Median(), len(c.ratios))
		if !within {
			t.Errorf("want %v times at most", *frozenFlag)
		}
	}
}

// compare measures calls with the store, and calls that begin when it has just been frozen.
func (c *plainCaller) compare(t *testing.T, store *redistest.Server, all []*server, first bool) {
	t.Helper()
	var with time.Duration
	if first {
		c.calls(t, callsOfRound/10) // which open connections
		with = c.calls(t, callsOfRound)
	}
	c.calls(t, callsOfRound/10)
	store.Freeze()
	without := c.calls(t, callsOfRound)
	store.Thaw()
	awaitStore(t, all)
	if !first {
		c.calls(t, callsOfRound/10)
		with = c.calls(t, callsOfRound)
	}
	c.ratios = append(c.ratios, float64(without)/float64(with))
}

// awaitStore waits until no server counts the store as away.
func awaitStore(t *testing.T, all []*server) {
	t.Helper()
	for _, s := range all {
		eventually(t, func() error {
			if away := s.metrics(t).sum("vitrine_store_away_seconds"); away > 0 {
				return fmt.Errorf("%s has had no store for %v s", s.mcp, away)
			}
			return nil
		})
	}
}
