package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/middleware"
)

func TestRateLimitsAreReadAndWritten(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string][]middleware.RateLimit{
		"":     nil,
		" ; ":  nil,
		"off":  {},
		" off": {},
		"all 100/s": {
			{Name: "all", Requests: 100, Window: time.Second},
		},
		"calls 100/1m burst 20 per principal, tool methods tools/call;connects 30/m per address methods initialize ,ping\n daily 5/7d": {
			{
				Name: "calls", Requests: 100, Window: time.Minute, Burst: 20,
				Per: []string{"principal", "tool"}, Methods: []string{"tools/call"},
			},
			{Name: "connects", Requests: 30, Window: time.Minute, Per: []string{"address"}, Methods: []string{"initialize", "ping"}},
			{Name: "daily", Requests: 5, Window: 7 * day},
		},
		"x 1/1h30m tools a.b,c-d;": {
			{Name: "x", Requests: 1, Window: 90 * time.Minute, Tools: []string{"a.b", "c-d"}},
		},
	} {
		got, err := parseRateLimits(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := parseRateLimits(formatRateLimits(got))
		require.NoError(t, err, text)
		require.Equal(t, got, again, formatRateLimits(got))
	}
}

func TestWrongRateLimitsSayWhatIsExpected(t *testing.T) {
	for text, want := range map[string]string{
		"calls":                          `"calls": want a name and a rate`,
		"calls 100":                      "want a name and a rate",
		"calls x/1m":                     "want a name and a rate",
		"calls 100/1m per":               "want a name and a rate",
		"calls 100/1w":                   `the window "1w" is none of s, m, h and d`,
		"calls 100/":                     `the window "" is none of`,
		"calls 100/1.5d":                 `the window "1.5d" is none of`,
		"calls 100/400d":                 `the window "400d" is none of`,
		"calls 100/1m burst many":        `the burst "many" is no number`,
		"calls 100/1m for tools/call":    `"for" is none of burst, per, methods and tools`,
		"calls 100/1m per user":          `rate limit "calls": per "user" is not known`,
		"calls 0/1m":                     `rate limit "calls": the number of requests must be positive`,
		"calls 1/1m; calls 2/1m":         `rate limit "calls": there are two of this name`,
		"calls 1/1m tools a methods a/b": "a rule about tools needs the method tools/call",
	} {
		_, err := parseRateLimits(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzRateLimits(f *testing.F) {
	f.Add("calls 100/1m burst 20 per principal,tool methods tools/call; off 1/d")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseRateLimits(text)
		if err != nil {
			return
		}
		again, err := parseRateLimits(formatRateLimits(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
