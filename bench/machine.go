package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A machine describes the conditions on which the figures depend.
type machine struct {
	cpu      string
	cores    int
	system   string
	load     string // the load averages before the run
	golang   string
	revision string // of Vitrine
	when     time.Time
	modules  map[string]string // versions by path
}

func thisMachine() machine {
	m := machine{
		cpu: "unknown processor", cores: runtime.NumCPU(), system: runtime.GOOS + "/" + runtime.GOARCH,
		golang: runtime.Version(), when: time.Now().UTC(), revision: "unknown revision", modules: map[string]string{},
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.cpu = cpuModel(info)
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.system += ", kernel " + string(bytes.TrimSpace(release))
	}
	if averages, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.load = strings.Join(strings.Fields(string(averages))[:3], " ")
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		m.revision = string(bytes.TrimSpace(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			m.modules[d.Path] = d.Version
			if d.Replace != nil {
				m.modules[d.Path] = m.revision
			}
		}
	}
	return m
}

// cpuModel returns the model of the first processor in a /proc/cpuinfo.
func cpuModel(info []byte) string {
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func (m machine) String() string {
	s := fmt.Sprintf("%s, %d cores, %s, %s", m.cpu, m.cores, m.system, m.golang)
	if m.load != "" {
		s += ", load averages before the run " + m.load
	}
	return s
}
