package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// node returns the Node that the scripts run with, which comes as an npm package.
// The test is skipped if the npm packages are not installed.
func node(t *testing.T, suite string) string {
	t.Helper()
	path, err := filepath.Abs("node/node_modules/node/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, "node/node_modules/@modelcontextprotocol/client", "node/node_modules/@modelcontextprotocol/sdk", inspector} {
		if _, err := os.Stat(file); err != nil {
			needs.Skip(t, suite, "npm packages of e2e/node not installed")
		}
	}
	return path
}

// A driver is an official client that does what it is told; see node/driver.mjs.
type driver struct {
	*process
	next  int // line of output that was not looked at yet
	last  int // id of the last command
	early []reply
}

// A reply is one line of a driver.
type reply struct {
	ID       int
	Event    string
	Version  string
	Tools    []struct{ Name string }
	Progress *struct{ Progress, Total float64 }
	Result   *struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
	}
	Error *struct {
		Name, Message string
		Code          any
	}
}

// drive starts a driver and waits until its client is connected.
func drive(t *testing.T, node string, env []string, args ...string) (*driver, reply) {
	t.Helper()
	d := &driver{process: start(t, program{path: node, args: append([]string{"node/driver.mjs"}, args...), env: env})}
	r := d.read(t)
	if r.Event != "connected" {
		t.Fatalf("the client is not connected: %+v %+v", r, r.Error)
	}
	return d, r
}

// read waits for the next line.
func (d *driver) read(t *testing.T) (r reply) {
	t.Helper()
	var line string
	line, d.next = d.stdout.await(t, "reply of the client", d.next, func(string) bool { return true })
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("the driver wrote %q: %v", line, err)
	}
	return r
}

// send gives a command and returns its id.
func (d *driver) send(t *testing.T, op string, command object) int {
	t.Helper()
	d.last++
	line := object{"id": d.last, "op": op}
	for k, v := range command {
		line[k] = v
	}
	if _, err := d.stdin.Write([]byte(encode(line) + "\n")); err != nil {
		t.Fatalf("write to the driver: %v", err)
	}
	return d.last
}

// await waits for the outcome of a command and returns the progress before it, too.
// What belongs to other commands is kept for them.
func (d *driver) await(t *testing.T, id int) (outcome reply, progress []float64) {
	t.Helper()
	take := func(r reply) (done bool) {
		switch {
		case r.ID != id:
			d.early = append(d.early, r)
		case r.Progress != nil:
			progress = append(progress, r.Progress.Progress)
		default:
			outcome, done = r, true
		}
		return done
	}
	early := d.early
	d.early = nil
	for i, r := range early {
		if take(r) {
			d.early = append(d.early, early[i+1:]...)
			return outcome, progress
		}
	}
	for !take(d.read(t)) {
	}
	return outcome, progress
}

// do gives a command and waits for its outcome.
func (d *driver) do(t *testing.T, op string, command object) reply {
	t.Helper()
	r, _ := d.await(t, d.send(t, op, command))
	return r
}

// call calls a tool and waits for its outcome.
func (d *driver) call(t *testing.T, tool string, arguments object) reply {
	t.Helper()
	return d.do(t, "call", object{"name": tool, "arguments": arguments})
}
