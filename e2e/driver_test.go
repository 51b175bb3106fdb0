package e2e

import (
	"encoding/json"
	"slices"
	"testing"
)

// A driver is a client that executes commands. It is a program of its own, with the commands of
// node/driver.mjs.
type driver struct {
	*process
	next  int // index of the first line of output that was not read yet
	last  int // id of the last command
	early []reply
}

// A reply is one line of a driver.
type reply struct {
	ID       int
	Event    string
	Version  string // of "connected"
	Session  string // of "connected"
	Method   string // of "asked" and "notified"
	Params   json.RawMessage
	Progress *struct{ Progress, Total float64 }
	Result   *result
	Error    *struct {
		Name, Message string
		Code          any
		Data          struct{ URI string }
	}
}

// A result is one of any method.
type result struct {
	IsError           bool
	Content           []content
	StructuredContent json.RawMessage
	Tools             []struct{ Name, Description string }
	Prompts           []struct {
		Name, Description string
		Arguments         []struct {
			Name     string
			Required bool
		}
	}
	Messages []struct {
		Role    string
		Content content
	}
	Resources         []struct{ URI, Name, MIMEType string }
	ResourceTemplates []struct{ URITemplate, Name string }
	Contents          []contents
	Completion        struct {
		Values  []string
		Total   int
		HasMore bool
	}
}

// content is a block of content.
type content struct {
	Type, Text, MIMEType string
	Data                 []byte
	Resource             contents
}

// contents are the contents of a resource.
type contents struct {
	URI, MIMEType, Text string
	Blob                []byte
}

// text is the text of the first block.
func (r reply) text() string {
	if r.Result == nil || len(r.Result.Content) == 0 {
		return ""
	}
	return r.Result.Content[0].Text
}

// code is the code of an error; 0 for a result, and for an error without one.
func (r reply) code() int {
	if r.Error == nil {
		return 0
	}
	code, _ := r.Error.Code.(float64)
	return int(code)
}

// drive starts a driver and waits until its client is connected.
func drive(t *testing.T, p program) (*driver, reply) {
	t.Helper()
	d := &driver{process: start(t, p)}
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

// take waits for a line that match accepts. The others are kept.
func (d *driver) take(t *testing.T, match func(reply) bool) reply {
	t.Helper()
	if i := slices.IndexFunc(d.early, match); i >= 0 {
		r := d.early[i]
		d.early = slices.Delete(d.early, i, i+1)
		return r
	}
	for {
		r := d.read(t)
		if match(r) {
			return r
		}
		d.early = append(d.early, r)
	}
}

// send sends a command and returns its id.
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

// await waits for the outcome of a command, and also returns the progress before it.
func (d *driver) await(t *testing.T, id int) (outcome reply, progress []float64) {
	t.Helper()
	for {
		r := d.take(t, func(r reply) bool { return r.ID == id })
		if r.Progress == nil {
			return r, progress
		}
		progress = append(progress, r.Progress.Progress)
	}
}

// do sends a command and waits for its outcome.
func (d *driver) do(t *testing.T, op string, command object) reply {
	t.Helper()
	r, _ := d.await(t, d.send(t, op, command))
	return r
}

// must is do for a command that must succeed.
func (d *driver) must(t *testing.T, op string, command object) reply {
	t.Helper()
	r := d.do(t, op, command)
	if r.Result == nil {
		t.Fatalf("%s %v: %+v", op, command, r.Error)
	}
	return r
}

// call calls a tool and waits for its outcome.
func (d *driver) call(t *testing.T, tool string, arguments object) reply {
	t.Helper()
	return d.do(t, "call", object{"name": tool, "arguments": arguments})
}

// awaitEvent waits for an event.
func (d *driver) awaitEvent(t *testing.T, event, method string) reply {
	t.Helper()
	return d.take(t, func(r reply) bool { return r.Event == event && r.Method == method })
}

// forget removes the events so far, and returns the number of those with a method.
func (d *driver) forget(method string) (n int) {
	d.early = slices.DeleteFunc(d.early, func(r reply) bool {
		if r.Event != "" && r.Method == method {
			n++
		}
		return r.Event != ""
	})
	return n
}

// command describes how to start the driver of a library.
func command(t *testing.T, library string, args ...string) program {
	t.Helper()
	if library == "gosdk" || library == "mcpgo" {
		return program{path: programFile(library), args: args}
	}
	return program{path: node(t, "e2e/clients"), args: append([]string{"node/driver.mjs", library}, args...)}
}
