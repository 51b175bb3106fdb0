package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What a URL says counts. What it does not say has the default of this package.
func TestOptionsOfAURLCount(t *testing.T) {
	for url, want := range map[string]struct {
		dials     int
		anonymous bool
	}{
		"redis://host":                            {1, true},
		"redis+cluster://host:1":                  {1, true},
		"redis+sentinel://host:1":                 {1, true},
		"redis+cluster://host:1?dialer_retries=3": {3, true},
		"redis+sentinel://host:1?dialer_retries=3&context_timeout_enabled=true": {3, true},
		"redis+sentinel://host:1?disableIdentity=false":                         {1, false},
		"redis+sentinel://host:1?disableIdentity=true&identitySuffix=main":      {1, true},
		"redis+sentinel://host:1?identitySuffix=main":                           {1, false},
	} {
		client, _, err := parse(url)
		require.NoError(t, err, url)
		switch client := client.(type) {
		case *redis.Client:
			require.Equal(t, want.dials, client.Options().DialerRetries, url)
			require.Equal(t, want.anonymous, client.Options().DisableIdentity, url)
			require.True(t, client.Options().ContextTimeoutEnabled, url)
		case *redis.ClusterClient:
			require.Equal(t, want.dials, client.Options().DialerRetries, url)
			require.Equal(t, want.anonymous, client.Options().DisableIdentity, url)
			require.True(t, client.Options().ContextTimeoutEnabled, url)
		}
		require.NoError(t, client.Close())
	}
}
