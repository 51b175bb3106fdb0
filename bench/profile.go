package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A profile has the profiles of a process under a load, as net/http/pprof writes them: of its CPU
// time, and of its allocations since its start.
type profile struct{ cpu, allocs []byte }

// profile takes a profile of the process under a load. It runs after the rounds, because profiling
// takes time. The profiler takes a hundred samples a second.
func (p *process) profile(l load, seconds int) (prof profile, err error) {
	cpu := make(chan error, 1)
	go func() {
		var err error
		prof.cpu, err = p.fetch(fmt.Sprintf("profile?seconds=%d", seconds))
		cpu <- err
	}()
	_, err = l.run(time.Duration(seconds) * time.Second)
	if err = errors.Join(err, <-cpu); err != nil {
		return prof, err
	}
	prof.allocs, err = p.fetch("allocs")
	return prof, err
}

// write writes the profile of what was measured into a folder.
func (prof profile) write(dir, measured string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, strings.ReplaceAll(measured, "/", "-"))
	return errors.Join(os.WriteFile(name+".cpu.prof", prof.cpu, 0o644), os.WriteFile(name+".allocs.prof", prof.allocs, 0o644))
}

// fetch returns a page of net/http/pprof.
func (p *process) fetch(page string) ([]byte, error) {
	resp, err := client().Get("http://" + p.addr + pprofPath + page)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.300q", page, resp.StatusCode, body)
	}
	return body, err
}
