package mcpgo

import (
	"bytes"
	"context"
	"io"
	"sync"

	sdk "github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Listen serves a byte stream until in or ctx ends. It calls [sdk.StdioServer.Listen] and returns its
// error. With it the adapter knows the reasons of the client's cancellations, and why the
// connection ended. stdio must be made of the instrumented server. mcp-go can serve only one
// connection at a time.
//
//	err := adapter.Listen(ctx, server.NewStdioServer(srv), os.Stdin, os.Stdout)
func (a *Adapter) Listen(ctx context.Context, stdio *sdk.StdioServer, in io.Reader, out io.Writer) error {
	p, err := a.core.AuthenticateStream(ctx, "stdio")
	if err != nil {
		return err
	}
	c := &connection{adapter: a, ctx: ctx, principal: p}
	return stdio.Listen(context.WithValue(ctx, connectionKey{}, c), &reader{Reader: in, connection: c}, out)
}

type connectionKey struct{}

// connectionOf returns the connection of a message, or nil.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// A connection is a connection of [Adapter.Listen].
type connection struct {
	adapter   *Adapter
	ctx       context.Context
	principal *auth.Principal

	mu   sync.Mutex
	read *mcp.CancelError // how reading ended; nil if it has not
}

// end returns why the connection ended, or nil if it is open.
func (c *connection) end() *mcp.CancelError {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read == nil && c.ctx.Err() != nil {
		return &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	}
	return c.read
}

// maxLine is the maximum length of a line for the search, in bytes.
const maxLine = 64 << 10

// A reader looks for cancellations in the lines that mcp-go reads.
type reader struct {
	io.Reader
	connection *connection
	line       []byte // the current line
	skip       bool   // the line is too long
}

// Read implements [io.Reader].
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.look(p[:n])
	if err != nil {
		end := mcp.CauseTransportError
		if err == io.EOF { // mcp-go compares the error so
			end = mcp.CauseTransportClose
		}
		r.connection.mu.Lock()
		r.connection.read = &mcp.CancelError{Cause: end}
		r.connection.mu.Unlock()
	}
	return n, err
}

func (r *reader) look(p []byte) {
	for len(p) > 0 {
		part, rest, complete := bytes.Cut(p, []byte("\n"))
		p = rest
		if !r.skip {
			r.line = append(r.line, part...)
		}
		if r.skip = r.skip || len(r.line) > maxLine; r.skip {
			r.line = r.line[:0]
		}
		if complete {
			if !r.skip && bytes.Contains(r.line, []byte(mcp.NotificationCancelled)) {
				r.connection.adapter.core.Notice(r.connection, r.line)
			}
			r.line, r.skip = r.line[:0], false
		}
	}
}
