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

// profile writes a CPU profile of the process under a load, and one of what it has
// allocated since its start, into a folder. It comes after the rounds, because profiling
// costs. The profiler looks a hundred times in each of the seconds.
func (p *process) profile(s scenario, l load, dir string, seconds int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, strings.ReplaceAll(s.name(), "/", "-")+"-"+p.kind.Name)
	cpu := make(chan error, 1)
	go func() { cpu <- p.fetch(fmt.Sprintf("profile?seconds=%d", seconds), name+".cpu.prof") }()
	_, err := l.run(time.Duration(seconds) * time.Second)
	return errors.Join(err, <-cpu, p.fetch("allocs", name+".allocs.prof"))
}

// fetch writes what a page of net/http/pprof says to a file.
func (p *process) fetch(page, file string) error {
	resp, err := client().Get("http://" + p.addr + pprofPath + page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %.300q", page, resp.StatusCode, body)
	}
	return os.WriteFile(file, body, 0o644)
}
