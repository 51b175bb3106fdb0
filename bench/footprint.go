package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

// footprintPath is the path of a server's footprint. A request to changePath changes its list
// of tools.
const (
	footprintPath = "/bench/footprint"
	changePath    = "/bench/change"
)

// A footprint is the memory of a process in bytes, after its garbage was collected and freed
// memory has been returned to the operating system.
type footprint struct {
	Heap       float64 `json:"heap"`   // living objects
	Stacks     float64 `json:"stacks"` // of goroutines
	Goroutines float64 `json:"goroutines"`
	Waiting    float64 `json:"waiting"` // calls of the tool that waits

	resident float64 // as the operating system sees it
}

// minus returns the growth since before, divided by n.
func (f footprint) minus(before footprint, n int) footprint {
	each := func(after, before float64) float64 { return (after - before) / float64(n) }
	return footprint{
		each(f.Heap, before.Heap), each(f.Stacks, before.Stacks), each(f.Goroutines, before.Goroutines),
		each(f.Waiting, before.Waiting), each(f.resident, before.resident),
	}
}

func writeFootprint(w http.ResponseWriter, waiting int64) {
	debug.FreeOSMemory()
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	_ = json.NewEncoder(w).Encode(footprint{ // an error means that the client is gone
		Heap: float64(samples[0].Value.Uint64()), Stacks: float64(samples[1].Value.Uint64()),
		Goroutines: float64(samples[2].Value.Uint64()), Waiting: float64(waiting),
	})
}

// footprint asks the process for its footprint. The garbage is collected twice, because pools
// free their values only in the second collection.
func (p *process) footprint() (f footprint, err error) {
	for range 2 {
		if err := p.get(footprintPath, &f); err != nil {
			return f, err
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return f, err
	}
	f.resident, err = parseStatus(status, "VmRSS")
	return f, err
}

// get asks the process for a page, and decodes it.
func (p *process) get(page string, into any) error {
	resp, err := client().Get("http://" + p.addr + page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", page, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// parseStatus returns a size in a /proc/<pid>/status, in bytes.
func parseStatus(status []byte, key string) (float64, error) {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(key+":")); ok {
			kB, err := strconv.ParseFloat(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 64)
			return kB * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s: %q", key, status)
}
