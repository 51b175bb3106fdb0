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
)

// addProfiles adds the paths of go tool pprof. It does not use package net/http/pprof, because its
// import adds the profiles to http.DefaultServeMux, which may be public.
func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathProfiles+"{$}", profileIndex)
	mux.HandleFunc("GET "+pathProfiles+"profile", profileCPU)
	mux.HandleFunc("GET "+pathProfiles+"trace", profileTrace)
	mux.HandleFunc("GET "+pathProfiles+"{name}", profileNamed)
}

func profileIndex(w http.ResponseWriter, _ *http.Request) {
	profiles := pprof.Profiles()
	slices.SortFunc(profiles, func(a, b *pprof.Profile) int { return strings.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	b.WriteString("profile?seconds=30  what uses the CPU\ntrace?seconds=1     trace of the runtime, for go tool trace\n")
	for _, p := range profiles {
		fmt.Fprintf(&b, "%-20s%d entries; ?debug=1 or 2 for text\n", p.Name(), p.Count())
	}
	plain(w, http.StatusOK, strings.TrimSpace(b.String()))
}

// profileNamed writes a profile of package runtime/pprof.
func profileNamed(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	p := pprof.Lookup(name)
	if p == nil {
		plain(w, http.StatusNotFound, "there is no such profile")
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
	_ = p.WriteTo(w, debug) // an error means that the client has gone away
}

func profileCPU(w http.ResponseWriter, r *http.Request) {
	binary(w, "profile")
	if err := pprof.StartCPUProfile(w); err != nil {
		plain(w, http.StatusConflict, err.Error())
		return
	}
	defer pprof.StopCPUProfile()
	wait(seconds(r, 30), r.Context().Done())
}

func profileTrace(w http.ResponseWriter, r *http.Request) {
	binary(w, "trace")
	if err := trace.Start(w); err != nil {
		plain(w, http.StatusConflict, err.Error())
		return
	}
	defer trace.Stop()
	wait(seconds(r, 1), r.Context().Done())
}

// seconds returns the duration in the query, an hour at most.
func seconds(r *http.Request, standard float64) time.Duration {
	s, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
	if err != nil || !(s > 0) {
		s = standard
	}
	return time.Duration(min(s, 3600) * float64(time.Second))
}
