// Package driver lets a program with an MCP client execute commands from standard input.
// node/driver.mjs describes the commands.
package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// A Command is one line of input. Which members it has depends on Op.
type Command struct {
	ID        int
	Op        string
	Name      string            // of a tool or a prompt
	URI       string            // of a resource
	Arguments json.RawMessage   // of a tool or a prompt
	Progress  bool              // ask for it
	Level     string            // of the log
	Ref       Reference         // of a completion
	Argument  Argument          // of a completion
	Context   map[string]string // of a completion
	Call      int               // to cancel
	Action    string            // answer to elicitations
	Content   map[string]any    // answer to elicitations
	Roots     []Root            // of the client
}

// A Reference names the prompt or the resource template of a completion.
type Reference struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"` // of a prompt
	URI  string `json:"uri,omitempty"`  // of a resource
}

// An Argument is an argument with the text that was typed so far.
type Argument struct{ Name, Value string }

// A Root is a folder of the client.
type Root struct{ URI, Name string }

// A Peer is a connected client. Its methods are called from many goroutines.
type Peer interface {
	// Version returns the revision that was negotiated.
	Version() string
	// Session returns the id of the session, or "".
	Session() string
	// Do carries out a command, which is none of this package's own, and returns the
	// result as it came.
	Do(ctx context.Context, c Command) (any, error)
	// Close ends the session and the connection.
	Close() error
}

// An RPCError is an error with the code of the answer, if the library returns it.
type RPCError struct {
	Code int
	Err  error
}

func (e *RPCError) Error() string { return e.Err.Error() }
func (e *RPCError) Unwrap() error { return e.Err }

// A Driver reads commands and writes events.
type Driver struct {
	// Mode, Transport and Target are the arguments of the program. The target is a URL or
	// a command.
	Mode, Transport string
	Target          []string

	mu       sync.Mutex
	calls    map[int]context.CancelFunc
	action   string
	content  map[string]any
	answered chan struct{} // closed and replaced when there is another answer
	roots    []Root
}

// Run connects a peer and executes commands from standard input, until that ends or a command ends
// it.
func Run(connect func(context.Context, *Driver) (Peer, error)) {
	d := &Driver{
		Mode: os.Args[1], Transport: os.Args[2], Target: os.Args[3:],
		calls: map[int]context.CancelFunc{}, action: "accept", answered: make(chan struct{}),
		roots: []Root{{URI: "file:///test/root", Name: "Test Root"}},
	}
	ctx := context.Background()
	peer, err := connect(ctx, d)
	if err != nil {
		d.say(object{"event": "failed", "error": describe(err)})
		os.Exit(1)
	}
	d.say(object{"event": "connected", "version": peer.Version(), "session": peer.Session()})
	var running sync.WaitGroup
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var c Command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err) // a mistake in a test
		}
		ctx, cancel := context.WithCancel(ctx)
		d.locked(func() { d.calls[c.ID] = cancel })
		running.Go(func() { d.run(ctx, peer, c) })
		if c.Op == "end" {
			break
		}
	}
	running.Wait()
}

func (d *Driver) run(ctx context.Context, peer Peer, c Command) {
	result, err := d.do(ctx, peer, c)
	d.locked(func() {
		d.calls[c.ID]()
		delete(d.calls, c.ID)
	})
	if err != nil {
		d.say(object{"id": c.ID, "error": describe(err)})
		return
	}
	d.say(object{"id": c.ID, "result": result})
}

func (d *Driver) do(ctx context.Context, peer Peer, c Command) (any, error) {
	none := object{}
	switch c.Op {
	case "cancel":
		d.locked(func() {
			if cancel := d.calls[c.Call]; cancel != nil {
				cancel()
			}
		})
		return none, nil
	case "answer":
		d.locked(func() {
			d.action, d.content = c.Action, c.Content
			close(d.answered)
			d.answered = make(chan struct{})
		})
		return none, nil
	case "roots":
		d.locked(func() { d.roots = c.Roots })
	case "end":
		return none, peer.Close()
	}
	return peer.Do(ctx, c)
}

func (d *Driver) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// Asked writes a question of the server to the client.
func (d *Driver) Asked(method string, params any) {
	d.say(object{"event": "asked", "method": method, "params": params})
}

// Notified writes a notification.
func (d *Driver) Notified(method string, params any) {
	d.say(object{"event": "notified", "method": method, "params": params})
}

// Progress writes the progress of a command.
func (d *Driver) Progress(id int, params any) { d.say(object{"id": id, "progress": params}) }

// Elicited returns the answer to an elicitation: those members of the test's answer that the form
// has. It may wait for that, or for the end of ctx.
func (d *Driver) Elicited(ctx context.Context, schema any) (action string, content map[string]any, err error) {
	var form struct{ Properties map[string]any }
	remarshal(schema, &form)
	for {
		var answered chan struct{}
		d.locked(func() {
			action, answered = d.action, d.answered
			content = map[string]any{}
			for name := range form.Properties {
				if v, ok := d.content[name]; ok {
					content[name] = v
				}
			}
		})
		switch action {
		case "wait":
		case "accept":
			return action, content, nil
		default:
			return action, nil, nil
		}
		select {
		case <-answered:
		case <-ctx.Done():
			d.say(object{"event": "relieved", "method": "elicitation/create"})
			return "", nil, ctx.Err()
		}
	}
}

// Sampled is the only text of the client's model.
const Sampled = "This is a test response from the client"

// Roots returns the roots of the client.
func (d *Driver) Roots() []Root {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roots
}

// Decode decodes the arguments of a command.
func Decode[T any](raw json.RawMessage) (v T) {
	if len(raw) > 0 {
		remarshal(raw, &v)
	}
	return v
}

// Command returns the server for a client that starts it. What it writes to standard
// error comes out of this program.
func (d *Driver) Command() *exec.Cmd {
	cmd := exec.Command(d.Target[0], d.Target[1:]...)
	cmd.Stderr = os.Stderr
	return cmd
}

type object = map[string]any

func describe(err error) object {
	described := object{"name": fmt.Sprintf("%T", err), "message": err.Error()}
	var rpc *RPCError
	if errors.As(err, &rpc) {
		described["code"] = rpc.Code
	}
	return described
}

func remarshal(from, to any) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		panic(err) // a decoded value can be encoded
	}
}

var stdout sync.Mutex

func (d *Driver) say(event object) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	os.Stdout.Write(append(line, '\n'))
}
