package service_test

import (
	"context"
	"flag"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// The program's own prefix is used wherever a variable is read or named.
func TestEnvPrefix(t *testing.T) {
	prefix := service.WithEnvPrefix("WEATHER")
	help, err := withoutStart(t, []string{"--help"}, nil, prefix)
	require.NoError(t, err)
	assert.Contains(t, help, "WEATHER_ADDR]")
	assert.Contains(t, help, "WEATHER_STATE_KEYS has the")
	assert.NotContains(t, help, "VITRINE_")

	env := map[string]string{"WEATHER_ADDR": "8080", "VITRINE_PATH": "wrong", "WEATHER_STATE_KEYS": "s3cr3t!"}
	_, err = withoutStart(t, nil, env, service.WithEnvPrefix("WEATHER_"))
	assert.ErrorContains(t, err, `invalid value "8080" for WEATHER_ADDR`)
	assert.ErrorContains(t, err, "invalid value for WEATHER_STATE_KEYS")
	assert.NotContains(t, err.Error(), "VITRINE_")

	_, err = withoutStart(t, []string{"--healthcheck=livez"}, map[string]string{"WEATHER_ADMIN_ADDR": "off"}, prefix)
	assert.ErrorContains(t, err, `nobody can be asked at "off"`)
	assert.ErrorContains(t, err, "WEATHER_ADMIN_ADDR")
}

func TestEnvPrefixOfARunningProcess(t *testing.T) {
	srv, _ := newGated(t, false)
	var root string
	env := map[string]string{"WEATHER_ADDR": "127.0.0.1:0", "WEATHER_ADMIN_ADDR": "127.0.0.1:0", "WEATHER_ROOT": "/srv", "VITRINE_PATH": "/wrong"}
	ctx, cancel := context.WithCancel(t.Context())
	log := &syncBuffer{}
	err := service.Run(ctx, srv, service.WithEnvPrefix("WEATHER"), service.WithArgs(nil), service.WithStderr(log),
		service.WithGetenv(func(name string) string { return env[name] }),
		service.WithFlags(func(fs *flag.FlagSet) { fs.StringVar(&root, "root", ".", "") }),
		service.WithListening(func(e service.Endpoints) {
			defer cancel()
			r := &running{Endpoints: e, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}}
			_, body := r.get(t, "/debug/flight")
			assert.Contains(t, body, "WEATHER_FLIGHT_RECORDER")
			req, err := http.NewRequest(http.MethodGet, e.Admin, nil)
			require.NoError(t, err)
			req.Host = "rebound.example"
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
		}))
	require.NoError(t, err)
	assert.Equal(t, "/srv", root)
	assert.Contains(t, log.String(), "/mcp")
	assert.Contains(t, log.String(), "WEATHER_ADMIN_ALLOWED_HOSTS")
	assert.NotContains(t, log.String(), "VITRINE_")
}

func TestEnvPrefixIsChecked(t *testing.T) {
	for _, bad := range []string{"", "_", "weather", "MY-APP", "1ST", "OTEL", "OTEL_"} {
		_, err := withoutStart(t, nil, nil, service.WithEnvPrefix(bad))
		assert.ErrorContains(t, err, "environment prefix", "%q", bad)
	}
}
