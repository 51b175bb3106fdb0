package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A replica looks when it begins, and after each outage, whether the store may delete values before their end. It says so
// once, and again when the store keeps them. An error says nothing of that.
func TestStoreThatEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		var said atomic.Pointer[error]
		say := func(err error) { said.Store(&err) }
		say(nil)
		shared, logs := &sharedMemory{}, &logRecorder{}
		checked := shared.store()
		checked.Check = func(context.Context) error {
			looks.Add(1)
			return *said.Load()
		}
		srv := newReplica(t, server.WithStore(checked), server.WithTelemetry(recording(t)), server.WithLogger(slog.New(logs)))
		defer func() { require.NoError(t, srv.Shutdown(context.Background())) }()
		expect := func(evicts, lines int) {
			t.Helper()
			require.Contains(t, metricsOf(srv), fmt.Sprintf("\nvitrine_store_evicts %d\n", evicts))
			require.Len(t, logs.find("store.evicts"), lines)
			require.Len(t, logs.find("store.keeps"), lines-evicts)
		}
		outage := func() {
			shared.fail(errors.New("down"))
			require.Equal(t, 200, post(srv, legacy(2, "logging/setLevel", `"level":"debug"`), open(t, srv)).Code)
			time.Sleep(time.Minute)
			shared.fail(nil)
			time.Sleep(30 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, int32(1), looks.Load())
		expect(0, 0)
		time.Sleep(time.Hour)
		require.Equal(t, int32(1), looks.Load(), "it does not ask without a reason")

		say(errors.New("NOPERM"))
		outage()
		expect(0, 0)
		say(fmt.Errorf("%w: maxmemory-policy is allkeys-lru", store.ErrEvicts))
		outage()
		expect(1, 1)
		outage()
		time.Sleep(time.Hour)
		expect(1, 1)
		say(errors.New("NOPERM"))
		time.Sleep(time.Hour)
		expect(1, 1)
		say(nil)
		time.Sleep(time.Minute)
		expect(0, 1)
		require.Contains(t, logs.find("store.evicts")[0].attrs["error"], "allkeys-lru")

		say(store.ErrEvicts)
		outage()
		expect(1, 2)
	})
}
