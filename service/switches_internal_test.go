package service

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A setting that an operator has changed for a time is restored, at the end of the last time that was
// given.
func TestSettingsAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{srv: server.New("x", "1"), cfg: Config{LogLevel: slog.LevelWarn}, switches: &switches{}}
		stop := p.switches.start(&p.cfg)
		debug, info := slog.LevelDebug, slog.LevelInfo
		require.NoError(t, p.setLogLevel(&order{Level: &debug, Seconds: 10}, &acted{}))
		time.Sleep(5 * time.Second)
		require.Equal(t, debug, p.switches.level.Level())
		require.NoError(t, p.setLogLevel(&order{Level: &info, Seconds: 10}, &acted{}))
		time.Sleep(9 * time.Second)
		require.Equal(t, info, p.switches.level.Level(), "the first time is over, and does not count")
		time.Sleep(2 * time.Second)
		require.Equal(t, slog.LevelWarn, p.switches.level.Level())
		require.NoError(t, p.setLogLevel(&order{Level: &debug}, &acted{}))
		time.Sleep(time.Hour)
		require.Equal(t, debug, p.switches.level.Level(), "it has no end")

		require.NoError(t, p.setProfile(&order{Profile: profileMutex, Seconds: 60, Rate: 3}, &acted{}))
		require.Equal(t, 3, runtime.SetMutexProfileFraction(-1))
		time.Sleep(61 * time.Second)
		require.Equal(t, 0, runtime.SetMutexProfileFraction(-1))
		require.Equal(t, 0, p.switches.rate(profileMutex))

		require.NoError(t, p.setProfile(&order{Profile: profileMutex, Seconds: 60}, &acted{}))
		stop()
		require.Equal(t, 0, runtime.SetMutexProfileFraction(-1), "the process has ended")
		time.Sleep(time.Hour)
		require.NoError(t, p.setProfile(&order{Profile: profileMutex, Seconds: 60}, &acted{}))
		require.Equal(t, 0, runtime.SetMutexProfileFraction(-1))
	})
}

// After its time a profile has the rate of the configuration again.
func TestProfilesOfTheConfigurationAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{srv: server.New("x", "1"), cfg: Config{MutexProfileFraction: 100}, switches: &switches{}}
		stop := p.switches.start(&p.cfg)
		require.Equal(t, 100, runtime.SetMutexProfileFraction(-1))
		require.NoError(t, p.setProfile(&order{Profile: profileMutex, Seconds: 1}, &acted{}))
		require.Equal(t, usualMutexFraction, runtime.SetMutexProfileFraction(-1))
		time.Sleep(2 * time.Second)
		require.Equal(t, 100, runtime.SetMutexProfileFraction(-1))
		stop()
		require.Equal(t, 0, runtime.SetMutexProfileFraction(-1))
	})
}
