package service

import (
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// containerShare is the part of the container's limit that max_memory is by default: three
// quarters. The kernel counts the buffers of sockets and files towards that limit as well.
const containerShare = 0.75

// containerPart returns the part of what a container allows that a process takes, in bytes.
func containerPart(container int) int { return int(float64(container) * containerShare) }

// withMemory returns the limits with a MaxMemory that follows from what the container allows, in
// bytes, unless one is set. In a container that is too small for the least limits it is what these
// need: a server with the defaults would take more. Limits that are set need not fit.
func withMemory(l server.Limits, container int) server.Limits {
	if l.MaxMemory != 0 || container == 0 {
		return l
	}
	l.MaxMemory = containerPart(container)
	if l.Check() != nil {
		l.MaxMemory = max(l.MaxMemory, limits.Limits{}.LeastMemory())
	}
	return l
}

// setMemoryLimit sets the memory limit of the Go runtime, unless the environment has set it.
func (p *process) setMemoryLimit() {
	most := p.srv.Limits().MaxMemory
	if most == 0 {
		return
	}
	limit := most
	if part := containerPart(p.container); p.container != 0 && most > part &&
		(most > p.container || part < limits.Limits{}.LeastMemory()) {
		limit = part
		slog.Warn("memory.limit", "max_memory", most, "container_bytes", p.container,
			"problem", "callers can make the process take more memory than the container leaves it",
			"remedy", "a larger container, or a smaller max_memory if it is set")
	}
	from := "GOMEMLIMIT"
	if p.getenv(from) == "" {
		debug.SetMemoryLimit(int64(limit))
		from = limits.NameMemory
		if limit != most {
			from = "container"
		}
	}
	l := p.srv.Limits()
	if needed := p.own + reservedBytes(&p.cfg, p.access, l); needed > l.ReservedBytes {
		slog.Warn("memory.reserved", "max_memory", most, limits.NameReservedBytes, l.ReservedBytes, "needed", needed,
			"problem", "the queues of the audit, verified tokens, signals to other replicas and the flight recorder can take more than is left to them",
			"remedy", "a larger max_memory, less of these, or a smaller reserved_bytes if it is set")
	}
	slog.Info("memory.budget", "max_memory", most, limits.NameReservedBytes, l.ReservedBytes, "container_bytes", p.container, "go_limit_from", from)
}

// containerMemory returns the memory that the control groups of the process allow it, in bytes; 0
// if there is no limit, or none can be read. A group is bounded by those above it as well.
func containerMemory(files fs.FS) int {
	text, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := math.MaxInt
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) != 3 {
			continue
		}
		switch controllers := strings.Split(fields[1], ","); {
		case fields[1] == "": // version 2
			least = min(least, groupMemory(files, "sys/fs/cgroup", fields[2], "memory.max"))
		case slices.Contains(controllers, "memory"):
			least = min(least, groupMemory(files, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	if least > unlimited {
		return 0
	}
	return least
}

// unlimited is the least figure that stands for no limit: version 1 writes the greatest number of
// pages.
const unlimited = 1 << 50

// groupMemory returns the least limit of a group and of those above it, or math.MaxInt. In a
// container the path may be that of the host, and only the root is there.
func groupMemory(files fs.FS, root, group, name string) int {
	least := math.MaxInt
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		text, err := fs.ReadFile(files, path.Join(root, dir, name))
		if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && n > 0 {
			least = min(least, n)
		}
		if dir == "/" {
			return least
		}
	}
}
