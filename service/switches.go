package service

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// switches are settings that operators change for a time. The zero value changes nothing.
type switches struct {
	level slog.LevelVar // of the log

	mu    sync.Mutex // guards the rest
	timer map[string]*time.Timer
	// mutex and block are the rates of these profiles now; 0 is off.
	mutex, block int
	ended        bool
}

// The profiles that are off by default.
const (
	profileMutex = "mutex"
	profileBlock = "block"
)

// until sets something until the time is over, and then calls back. A later call with the same name
// replaces the time. 0 is no end.
func (s *switches) until(name string, length time.Duration, set, back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if t := s.timer[name]; t != nil {
		t.Stop()
		delete(s.timer, name)
	}
	set()
	if length <= 0 {
		return
	}
	if s.timer == nil {
		s.timer = map[string]*time.Timer{}
	}
	var mine *time.Timer
	mine = time.AfterFunc(length, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer[name] == mine && !s.ended {
			back()
			slog.Info("admin.restored", "setting", name)
		}
	})
	s.timer[name] = mine
}

// setRate turns a profile on, or off with 0. The caller must hold s.mu.
func (s *switches) setRate(profile string, rate int) {
	if profile == profileMutex {
		s.mutex = rate
		runtime.SetMutexProfileFraction(rate)
		return
	}
	s.block = rate
	runtime.SetBlockProfileRate(rate)
}

// rate returns the rate of a profile now; 0 is off.
func (s *switches) rate(profile string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if profile == profileMutex {
		return s.mutex
	}
	return s.block
}

// start sets the profiles of the configuration, and returns a function that turns them off.
func (s *switches) start(cfg *Config) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := cfg.MutexProfileFraction > 0 || cfg.BlockProfileRate > 0
	if own {
		s.setRate(profileMutex, cfg.MutexProfileFraction)
		s.setRate(profileBlock, cfg.BlockProfileRate)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		for _, t := range s.timer {
			t.Stop()
		}
		if s.mutex > 0 {
			s.setRate(profileMutex, 0)
		}
		if s.block > 0 {
			s.setRate(profileBlock, 0)
		}
	}
}

// setLogLevel has the log show more, for a time or until it is set again. It cannot show less than the
// configuration says, so that no action hides what comes after it.
func (p *process) setLogLevel(o *order, a *acted) error {
	length := seconds(o.Seconds)
	switch {
	case o.Level == nil:
		return orderError("want a level: debug, info, warn or error")
	case *o.Level > p.cfg.LogLevel:
		return orderError(fmt.Sprintf("the log has records from %v on, and an operator can ask for more only", p.cfg.LogLevel))
	case length < 0:
		return orderError("seconds is negative: want a time, or 0 for no end")
	}
	p.switches.until("log_level", length,
		func() { p.switches.level.Set(*o.Level) }, func() { p.switches.level.Set(p.cfg.LogLevel) })
	a.Did = "the log has records from level " + o.Level.String() + " on"
	a.ends(length)
	return nil
}

// The rates of profiles that an operator turns on without one: one of 10 events, and one event for
// each 10 µs of waiting.
const (
	usualMutexFraction = 10
	usualBlockRate     = 10_000
)

// setProfile turns a profile on for a time, which max_profile_time bounds.
func (p *process) setProfile(o *order, a *acted) error {
	length, bound := seconds(o.Seconds), p.srv.Limits().MaxProfileTime
	usual, standing := usualMutexFraction, p.cfg.MutexProfileFraction
	switch {
	case o.Profile == profileBlock:
		usual, standing = usualBlockRate, p.cfg.BlockProfileRate
	case o.Profile != profileMutex:
		return orderError(fmt.Sprintf("want a profile, %s or %s", profileMutex, profileBlock))
	}
	switch {
	case o.Rate < 0:
		return orderError("rate is negative")
	case length <= 0 || length > bound:
		return orderError(fmt.Sprintf("seconds is %v: want more than 0, and max_profile_time allows %v", o.Seconds, bound))
	}
	rate := o.Rate
	if rate == 0 {
		rate = usual
	}
	p.switches.until("profile "+o.Profile, length,
		func() { p.switches.setRate(o.Profile, rate) }, func() { p.switches.setRate(o.Profile, standing) })
	a.Did = fmt.Sprintf("the profile %s is on, with the rate %d: fetch %s%s", o.Profile, rate, pathProfiles, o.Profile)
	a.ends(length)
	return nil
}

// ends says when a setting ends; 0 is never.
func (a *acted) ends(length time.Duration) {
	if length > 0 {
		until := time.Now().Add(length).UTC()
		a.Until = &until
	}
}
