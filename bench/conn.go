package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A conn is a keep-alive connection of HTTP/1.1. It supports only what these servers use, to
// save time: the client runs on the same machine as the server.
type conn struct {
	net     *poller
	in      *bufio.Reader
	body    []byte // of the last response; valid until the next
	session string // the id in the last response that had one
}

// dial opens a connection that reads with a buffer of the given size.
func dial(addr string, buffer int) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	p, err := newPoller(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &conn{net: p, in: bufio.NewReaderSize(p, buffer)}, nil
}

// setDeadline makes reads and writes fail after t.
func (c *conn) setDeadline(t time.Time) error { return c.net.SetDeadline(t) }
func (c *conn) close()                        { c.net.Close() }

// roundTrip sends a request and reads the whole response into c.body.
func (c *conn) roundTrip(request []byte) (status int, err error) {
	status, length, err := c.open(request)
	if err != nil {
		return 0, err
	}
	c.body = c.body[:0]
	if length < 0 {
		return status, c.readChunks()
	}
	return status, c.read(length)
}

// open sends a request and reads the head of the response. length is the length of the body,
// negative if the body comes in chunks.
func (c *conn) open(request []byte) (status, length int, err error) {
	if _, err := c.net.Write(request); err != nil {
		return 0, 0, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("not an HTTP response: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("not an HTTP status: %q", line)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if !ok {
			return status, length, nil
		}
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(key, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, 0, fmt.Errorf("not a length: %q", line)
			}
		case bytes.EqualFold(key, []byte("Transfer-Encoding")) && bytes.EqualFold(value, []byte("chunked")):
			length = -1
		case bytes.EqualFold(key, []byte("Mcp-Session-Id")):
			c.session = string(value)
		}
	}
}

// read appends n bytes to the body.
func (c *conn) read(n int) error {
	at := len(c.body)
	for cap(c.body) < at+n {
		c.body = append(c.body[:cap(c.body)], 0)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}

func (c *conn) readChunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("not the size of a chunk: %q", line)
		}
		if err := c.read(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil { // the end of the line
			return err
		}
		if n == 0 { // none of these servers sends trailers
			return nil
		}
	}
}
