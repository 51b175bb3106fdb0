package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/vitrine-mcp/vitrine/e2e/bound"
)

// A wire2 is one connection of HTTP/2, on which a test writes the frames of its choice.
type wire2 struct {
	*http2.Framer
	*wire
}

// wire2 begins a connection of HTTP/2 without TLS.
func (s *target) wire2(t *testing.T) wire2 {
	t.Helper()
	w := s.wire(t, attacker)
	c := wire2{http2.NewFramer(w, w.in), w}
	if _, err := io.WriteString(w, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// echo2 is the header of a modern call of echo.
func (s *target) echo2() [][2]string {
	return [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", s.host}, {":path", "/mcp"},
		{"content-type", "application/json"}, {"accept", "application/json, text/event-stream"},
		{"mcp-protocol-version", modernVersion}, {"mcp-method", "tools/call"}, {"mcp-name", "echo"},
	}
}

// set returns a header in which a field has another value, which may be new, or is missing for "".
func set(header [][2]string, name, value string) (all [][2]string) {
	found := false
	for _, field := range header {
		if field[0] == name {
			found = true
			if field[1] = value; value == "" {
				continue
			}
		}
		all = append(all, field)
	}
	if !found {
		all = append(all, [2]string{name, value})
	}
	return all
}

func packed(header [][2]string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, field := range header {
		_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into memory
	}
	return b.Bytes()
}

// request sends a request on a stream.
func (c wire2) request(stream uint32, header [][2]string, body string) error {
	return errors.Join(
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: packed(header), EndHeaders: true}),
		c.WriteData(stream, true, []byte(body)))
}

// answer returns the status and the body that come on a stream. The status is "" if the stream or the
// connection ends without.
func (c wire2) answer(t *testing.T, stream uint32) (status, body string) {
	t.Helper()
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := c.ReadFrame()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("neither an answer nor an end")
		}
		if err != nil {
			return status, body
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			return status, body
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				status = frame.PseudoValue("status")
			}
		case *http2.DataFrame:
			if frame.StreamID == stream {
				body += string(frame.Data())
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return status, body
			}
		}
		if h := frame.Header(); h.StreamID == stream && h.Flags.Has(http2.FlagDataEndStream) {
			return status, body
		}
	}
}

// Over HTTP/2 a request that names two ends, hosts or targets is refused as it is over HTTP/1.1.
func TestAmbiguousRequestsOfHTTP2AreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--h2c")
	undisturbed := s.others(t)
	good, body := s.echo2(), echo("x").frame(1, true)
	also := func(name, value string) [][2]string {
		return append(good[:len(good):len(good)], [2]string{name, value})
	}
	for name, header := range map[string][][2]string{
		"another host":           set(good, ":authority", "evil.example"),
		"a user that is a host":  set(good, ":authority", "localhost@evil.example"),
		"no host":                set(good, ":authority", ""),
		"another origin":         also("origin", "http://evil.example"),
		"an absolute path":       set(good, ":path", "http://evil.example/mcp"),
		"a path without a slash": set(good, ":path", "mcp"),
		"two paths":              append([][2]string{{":path", "/metrics"}}, good...),
		"a path behind fields":   append(set(good, ":path", ""), [2]string{":path", "/mcp"}),
		"CONNECT":                set(good, ":method", "CONNECT"),
		"a length that is short": also("content-length", "3"),
		"a length that is long":  also("content-length", fmt.Sprint(len(body)+3)),
		"two lengths":            append(also("content-length", "3"), [2]string{"content-length", fmt.Sprint(len(body))}),
		"chunks":                 also("transfer-encoding", "chunked"),
		"a header of the hop":    also("connection", "mcp-name"),
		"an upgrade":             also("upgrade", "websocket"),
		"a name in capitals":     also("X-Name", "x"),
		"a line end in a value":  also("x-name", "a\r\nmcp-name: paid"),
		"a line end in a name":   also("x-name: a\r\nmcp-name", "paid"),
		"a NUL":                  also("x-name", "a\x00b"),
		"two names":              also("mcp-name", "paid"),
		"another name":           set(good, "mcp-name", "paid"),
		"two methods":            also("mcp-method", "tools/list"),
		"an encoded body":        also("content-encoding", "gzip"),
		"two hundred headers":    append(good[:len(good):len(good)], make200()...),
	} {
		c := s.wire2(t)
		if err := c.request(1, header, body); err != nil {
			continue // the server has closed the connection
		}
		if status, got := c.answer(t, 1); status != "" && status[0] != '4' || strings.Contains(got, `"result"`) {
			t.Errorf("%s: %q %.300s", name, status, got)
		}
		c.Close()
	}
	c := s.wire2(t)
	if err := c.request(1, good, body); err != nil {
		t.Fatal(err)
	}
	if status, got := c.answer(t, 1); status != fmt.Sprint(http.StatusOK) || !strings.Contains(got, `"text":"x"`) {
		t.Errorf("a good request: %q %s", status, got)
	}
	undisturbed()
}

func make200() (all [][2]string) {
	for i := range 200 {
		all = append(all, [2]string{fmt.Sprint("x-", i), "y"})
	}
	return all
}

// Frames that cost their sender nothing end the connection, or cost the server little: streams that
// are reset at once, headers without an end, questions whose answers are not read.
func TestFloodsOfHTTP2FramesEnd(t *testing.T) {
	for name, flood := range map[string]func(c wire2, header []byte, n uint32) error{
		"streams that are reset": func(c wire2, header []byte, n uint32) error {
			return errors.Join(
				c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: header, EndHeaders: true, EndStream: n%2 == 0}),
				c.WriteRSTStream(2*n+1, http2.ErrCodeCancel))
		},
		"headers without an end": func(c wire2, header []byte, n uint32) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header})
			}
			return c.WriteContinuation(1, false, packed([][2]string{{fmt.Sprint("x-", n), strings.Repeat("y", 100)}}))
		},
		"settings": func(c wire2, _ []byte, _ uint32) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		},
		"pings": func(c wire2, _ []byte, _ uint32) error { return c.WritePing(false, [8]byte{}) },
		"no data": func(c wire2, header []byte, n uint32) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header, EndHeaders: true})
			}
			return c.WriteData(1, false, nil)
		},
		"priorities": func(c wire2, _ []byte, n uint32) error {
			return c.WritePriority(2*n+1, http2.PriorityParam{StreamDep: 0, Weight: 7})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := attacked(t, "--h2c", "--body-timeout", "2s")
			undisturbed := s.others(t)
			s.forgetPeak(t)
			base, header := s.memory(t, "VmRSS"), packed(s.echo2())
			c := s.wire2(t)
			_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // the server may stop to read
			frames := uint32(0)
			for ; frames < 100_000 && flood(c, header, frames) == nil; frames++ {
			}
			t.Logf("%d frames were sent", frames)
			if grown := s.memory(t, "VmHWM") - base; grown > bound.Memory {
				t.Errorf("%d frames take %d MiB", frames, grown>>20)
			}
			undisturbed()
		})
	}
}
