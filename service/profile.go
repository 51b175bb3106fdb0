package service

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A profiler bounds how many profiles are taken at once, and how long one takes. A dump of all
// goroutines stops the program, so that many of them would slow down every caller.
type profiler struct {
	limits  server.Limits
	reached func(limit string) // counts that a limit was reached
	taking  chan struct{}      // has an element for each profile that is being taken
	off     func(profile string) (why string)
}

// newProfiler returns a profiler. off says why a profile is empty and how to turn it on; "" if it is on.
func newProfiler(l server.Limits, reached func(limit string), off func(profile string) string) *profiler {
	return &profiler{limits: l, reached: reached, taking: make(chan struct{}, l.MaxProfiles), off: off}
}

// addTo adds the paths of go tool pprof. It does not use package net/http/pprof, because its
// import adds the profiles to http.DefaultServeMux, which may be public.
func (p *profiler) addTo(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathProfiles+"{$}", p.index)
	mux.Handle("GET "+pathProfiles+"profile", p.bound(p.cpu))
	mux.Handle("GET "+pathProfiles+"trace", p.bound(p.trace))
	mux.Handle("GET "+pathProfiles+"{name}", p.bound(p.named))
	mux.Handle("GET "+pathGoroutines, p.bound(goroutines))
}

// bound refuses a profile while too many are being taken.
func (p *profiler) bound(take http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case p.taking <- struct{}{}:
			defer func() { <-p.taking }()
		default:
			p.reached(limits.NameProfiles)
			w.Header().Set("Retry-After", "1")
			plain(w, http.StatusServiceUnavailable, fmt.Sprintf("another profile is being taken: %s allows %d", limits.NameProfiles, p.limits.MaxProfiles))
			return
		}
		take(w, r)
	})
}

func (p *profiler) index(w http.ResponseWriter, _ *http.Request) {
	profiles := pprof.Profiles()
	slices.SortFunc(profiles, func(a, b *pprof.Profile) int { return strings.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	b.WriteString("profile?seconds=30  what uses the CPU\ntrace?seconds=1     trace of the runtime, for go tool trace\n")
	for _, profile := range profiles {
		fmt.Fprintf(&b, "%-20s%d entries; ?debug=1 or 2 for text", profile.Name(), profile.Count())
		if why := p.off(profile.Name()); why != "" {
			b.WriteString("; " + why)
		}
		b.WriteString("\n")
	}
	plain(w, http.StatusOK, strings.TrimSpace(b.String()))
}

// named writes a profile of package runtime/pprof. One that is off and has nothing is refused: an empty
// profile looks like a program without contention.
func (p *profiler) named(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	profile := pprof.Lookup(name)
	if profile == nil {
		plain(w, http.StatusNotFound, "there is no such profile")
		return
	}
	if why := p.off(name); why != "" && profile.Count() == 0 {
		w.Header().Set("X-Go-Pprof", "1") // go tool pprof then shows the text
		plain(w, http.StatusConflict, "the profile "+name+" has no entries: "+why)
		return
	}
	if name == "heap" && r.FormValue("gc") != "" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // 0, the binary form, if it is no number
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		binary(w, name)
	}
	_ = profile.WriteTo(w, debug) // an error means that the client has gone away
}

func (p *profiler) cpu(w http.ResponseWriter, r *http.Request) {
	length, ok := p.length(w, r, 30)
	if !ok {
		return
	}
	binary(w, "profile")
	if err := pprof.StartCPUProfile(w); err != nil {
		plain(w, http.StatusConflict, err.Error())
		return
	}
	defer pprof.StopCPUProfile()
	wait(length, r.Context().Done())
}

func (p *profiler) trace(w http.ResponseWriter, r *http.Request) {
	length, ok := p.length(w, r, 1)
	if !ok {
		return
	}
	binary(w, "trace")
	if err := trace.Start(w); err != nil {
		plain(w, http.StatusConflict, err.Error())
		return
	}
	defer trace.Stop()
	wait(length, r.Context().Done())
}

// length returns the duration in the query, or refuses the request if it is too long.
func (p *profiler) length(w http.ResponseWriter, r *http.Request, standard float64) (time.Duration, bool) {
	s, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
	if err != nil || !(s > 0) {
		s = min(standard, p.limits.MaxProfileTime.Seconds())
	}
	if s > p.limits.MaxProfileTime.Seconds() {
		p.reached(limits.NameProfileTime)
		plain(w, http.StatusBadRequest, fmt.Sprintf("seconds is %v: %s allows %v", s, limits.NameProfileTime, p.limits.MaxProfileTime))
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}

// profileIsOff says that a profile is off and how to turn it on, or "" if it is on.
func (p *process) profileIsOff(profile string) string {
	setting := ""
	switch profile {
	case profileMutex:
		setting = flagMutexProfile
	case profileBlock:
		setting = flagBlockProfile
	default:
		return ""
	}
	if p.switches.rate(profile) > 0 {
		return ""
	}
	return fmt.Sprintf("it is off; --%s or %s turns it on, and POST %s%s for a time (--%s)",
		setting, p.env.name(setting), pathActions, telemetry.ActionProfile, flagAdminActions)
}
