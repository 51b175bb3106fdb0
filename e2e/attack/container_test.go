package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// containerBytes is what a container allows of which boundedMemory, three quarters, is the server's.
const containerBytes = boundedMemory / 3 * 4

// contained starts a server in a control group that allows containerBytes. Where the test may not make one, as without the
// rights of root, that is skipped, and the server gets a flag instead, with what would follow from the group.
func contained(t *testing.T) *target {
	t.Helper()
	patient := []string{"--body-timeout", "5m", "--write-timeout", "5m"} // so that what is held stays until all is checked
	group := controlGroup(t)
	if group == "" {
		t.Run("in a control group", func(t *testing.T) { needs.Skip(t, "e2e/container", "no control group can be made here") })
		return attacked(t, append(patient, "--max-memory", fmt.Sprint(boundedMemory))...)
	}
	s := newTarget("victim", append(patient, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")...)
	s.cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"), s.cmd.Path}, s.cmd.Args[1:]...)
	s.cmd.Path = "/bin/sh"
	s.serve(t)
	text := strings.Join(s.log.all(), "")
	for _, found := range []string{fmt.Sprintf(`"max_memory":%d,`, boundedMemory), fmt.Sprintf(`"container_bytes":%d,`, containerBytes)} {
		if !strings.Contains(text, found) {
			t.Errorf("the server has not found its container: no %s in\n%s", found, text)
		}
	}
	return s
}

// controlGroup makes a control group of version 1 or 2 that allows containerBytes, and returns its folder; "" if it cannot.
func controlGroup(t *testing.T) string {
	t.Helper()
	name := fmt.Sprint("vitrine-attack-", os.Getpid())
	for folder, limit := range map[string]string{
		filepath.Join("/sys/fs/cgroup/memory", name): "memory.limit_in_bytes",
		filepath.Join("/sys/fs/cgroup", name):        "memory.max",
	} {
		limit = filepath.Join(folder, limit)
		if os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(folder) }) // after the end of the server
		if _, err := os.Stat(limit); err == nil && os.WriteFile(limit, []byte(strconv.Itoa(containerBytes)), 0) == nil {
			return folder
		}
	}
	return ""
}

// Attackers who fill all parts of the memory at the same time do not make a server take more than its container allows, from
// which all of its limits follow. Others are served.
func TestAllPartsOfTheMemoryFitIntoTheContainer(t *testing.T) {
	t.Parallel()
	s := contained(t)
	undisturbed := s.others(t)
	s.forgetPeak(t)

	// What is kept when the attackers have gone. Each time it is another one.
	names := 0
	visit := func(n int, f func(c *caller)) {
		for range n {
			names++
			c := s.caller(t, attackerAddress(names), fmt.Sprint("mallory-", names))
			f(c)
			c.http.CloseIdleConnections()
		}
	}
	visit(10, func(c *caller) {
		for range 5 {
			c.modern(t, 1, job(0, 1<<20))
		}
	})
	visit(50, func(c *caller) {
		for range 10 {
			c.modern(t, 1, job(600_000, 1))
		}
	})
	visit(10, func(c *caller) {
		c.initialize(t)
		c.legacy(t, "level", call{method: "logging/setLevel", params: `"level":"debug"`})
		talk := call{tool: "chatter", arguments: `{"messages":5,"bytes":300000}`}
		c.openStream(t, http.MethodPost, c.sessionHeader(), talk.frame("talk", false)).cancel()
	})
	visit(900, func(c *caller) {
		c.must(t, http.MethodPost, plainHeader(), strings.Replace(initializeFrame, `"elicitation":{}`, `"experimental":{"a":[`+strings.Repeat("[],", 150)+`[]]}`, 1))
	})

	// What is held by those who stay.
	send := func(n int, what call, missing int) {
		t.Helper()
		raw := s.rawEcho(1).set("Mcp-Method", what.methodName())
		if raw = raw.without("Mcp-Name"); what.tool != "" {
			raw = raw.with("Mcp-Name: " + what.tool)
		}
		raw.body = what.frame(1, true)
		text := raw.String()
		for w := range s.wires(t, n) {
			if tcp, ok := w.Conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			// The server does not read the whole request if it refuses it.
			_ = w.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.WriteString(w, text[:len(text)-missing])
		}
	}
	objects := `{"anything":[` + strings.Repeat(`{"name":1},`, 5000) + `1],"ms":600000}`
	send(40, call{tool: "hold", arguments: objects}, 0)
	send(60, call{tool: "big", arguments: `{"bytes":1000000}`}, 0)
	var uris []string
	for i := range 8 {
		uris = append(uris, quote(fmt.Sprintf("bounded://%s/%d", strings.Repeat("x", 440+i/5), i%5)))
	}
	send(620, call{method: "subscriptions/listen", params: `"notifications":{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}`}, 0)
	send(700, call{tool: "sleep", arguments: `{"ms":600000}`}, 0)
	send(300, echo(strings.Repeat("x", 64<<10)), 1)

	s.full(t)
	c := s.caller(t, bystanders, "otto")
	large := echo(strings.Repeat("x", 64<<10))
	if r := c.modern(t, 1, large); len(r.text()) != 64<<10 {
		t.Errorf("another caller got %d: %.200s", r.status, r.body)
	}
	undisturbed()
	s.fits(t, "all at once")
}

// full checks that each part of the memory is at least half full; but not validation, which keeps nothing.
func (s *target) full(t *testing.T) {
	t.Helper()
	eventually(t, func() (err error) {
		m := s.metrics(t)
		for series, bound := range m {
			part, ok := strings.CutPrefix(series, "vitrine_memory_bound_bytes")
			if !ok || strings.Contains(part, `"validation"`) {
				continue
			}
			held := m["vitrine_memory_held_bytes"+part]
			if held < bound/2 {
				err = fmt.Errorf("part %s holds %.0f of %.0f bytes", part, held, bound)
			}
		}
		return err
	})
}
