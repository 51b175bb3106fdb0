package service_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/service"
)

// A server with a store listens to what other replicas say. It begins, and is ready, although the store is away.
func TestStore(t *testing.T) {
	redis := miniredis.RunT(t)
	for name, addr := range map[string]string{"there": redis.Addr(), "away": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			served := false
			log, err := runs(t, newAsking(), nil, map[string]string{
				"VITRINE_STATE_KEYS": encoded(1), "VITRINE_STORE": "redis://user:s3cr3t@" + addr + "/0",
			}, func() { served = true })
			require.NoError(t, err)
			assert.True(t, served)
			assert.Contains(t, log, "msg=readiness.changed from=unknown to=ready")
			assert.NotContains(t, log, "s3cr3t")
			if name == "away" {
				assert.Contains(t, log, "store.unreachable store=redis://user:xxxxx@127.0.0.1:1/0")
			}
		})
	}
}

// With the setting a server is ready when it hears its replicas, and not before.
func TestStoreReadiness(t *testing.T) {
	redis, keys := miniredis.RunT(t), filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte(encoded(1)), 0o600))
	for _, tt := range []struct {
		addr   string
		status int
	}{{redis.Addr(), http.StatusOK}, {"127.0.0.1:1", http.StatusServiceUnavailable}} {
		srv, _ := newGated(t, false)
		r := start(t, srv, "--store-readiness", "--state-keys-file="+keys, "--store=redis://"+tt.addr+"/0")
		require.Eventually(t, func() bool {
			status, body := r.get(t, "/readyz")
			return status == tt.status && (status == http.StatusOK || strings.Contains(body, "store: the store that the replicas share is away"))
		}, 10*time.Second, 10*time.Millisecond)
	}
}

// A server without state keys cannot use a store, and a URL that is wrong is an error. No text has the
// password.
func TestStoreMistakes(t *testing.T) {
	redis := miniredis.RunT(t)
	for name, tt := range map[string]struct{ url, keys, want string }{
		"no keys": {"redis://" + redis.Addr(), "", "state keys"},
		"scheme":  {"http://user:s3cr3t@host", encoded(1), "service: the store: redisstore: redis: invalid URL scheme: http"},
		"option":  {"redis://user:s3cr3t@host?colour=red", encoded(1), "unexpected option: colour"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := runs(t, newAsking(), nil, map[string]string{"VITRINE_STATE_KEYS": tt.keys, "VITRINE_STORE": tt.url},
				func() { t.Error("it serves") })
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error()+log, "s3cr3t")
		})
	}
}

func TestStorePasswordIsNotPrinted(t *testing.T) {
	cfg := service.DefaultConfig()
	cfg.Store = "redis://user:s3cr3t@host:6379/0"
	raw, err := json.Marshal(cfg)
	require.NoError(t, err)
	text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.Store) + string(raw)
	assert.Contains(t, text, "redis://user:xxxxx@host:6379/0")
	assert.NotContains(t, text, "s3cr3t")
	assert.Equal(t, "redis+sentinel://host:26379?master_name=main&password=xxxxx&sentinel_password=xxxxx",
		service.StoreURL("redis+sentinel://host:26379?master_name=main&password=s3cr3t&sentinel_password=s3cr3t").String())
	assert.Equal(t, "(not a URL)", service.StoreURL("redis://user:s3cr3t@host:%zz").String())
}

// A server does not begin with a store that evicts values, and one whose store does so after an outage, as another
// server may that has taken over, says it and goes on.
func TestStoreThatEvicts(t *testing.T) {
	redis := redistest.Start(t, "service with a real store")
	proxy, shell := redistest.StartProxy(t, redis.Addr()), redistest.Dial(t, redis.Addr())
	env := map[string]string{"VITRINE_STATE_KEYS": encoded(1), "VITRINE_STORE": "redis://" + proxy.Addr() + "/0"}
	srv := newAsking()
	evicts := func() bool {
		w := httptest.NewRecorder()
		srv.Telemetry().MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return strings.Contains(w.Body.String(), "\nvitrine_store_evicts 1\n")
	}
	log, err := runs(t, srv, nil, env, func() {
		assert.False(t, evicts())
		proxy.Cut()
		shell.Do("CONFIG SET maxmemory-policy allkeys-lru")
		proxy.Heal()
		assert.Eventually(t, evicts, time.Minute, time.Millisecond)
	})
	require.NoError(t, err)
	assert.Contains(t, log, "level=ERROR msg=store.evicts store=redis://"+proxy.Addr()+"/0 ")
	assert.Contains(t, log, "maxmemory-policy is allkeys-lru, and must be noeviction")
	_, err = runs(t, newAsking(), nil, env, func() { t.Error("it serves") })
	require.ErrorContains(t, err, "maxmemory-policy is allkeys-lru, and must be noeviction")
}
