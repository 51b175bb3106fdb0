package wire

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata")

// TestGolden runs the scripts of testdata/*.txt. A script line is one of
//
//	# a comment
//	limits BYTES DEPTH BATCH     for the lines below it
//	decode FRAME                 a frame as it stands
//	decodeq "FRAME"              a frame as a Go string, for bytes that are no text
//	decodex N "A" "B" "C"        N times A, then B, then N times C
//	split FRAME
//
// and the indented lines that follow are the outcome, which -update rewrites.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runScript(string(want))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: outcome differs; run with -update and look at the diff\n%s", file, firstDifference(got, string(want)))
			}
		})
	}
}

func runScript(script string) (string, error) {
	var out strings.Builder
	var lim Limits
	for n, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // an old outcome
		}
		out.WriteString(line + "\n")
		verb, rest, _ := strings.Cut(line, " ")
		frame, err := []byte(rest), error(nil)
		switch verb {
		case "", "#":
			continue
		case "limits":
			_, err = fmt.Sscan(rest, &lim.MaxBytes, &lim.MaxDepth, &lim.MaxBatch)
		case "decodeq":
			var s string
			s, err = strconv.Unquote(rest)
			frame = []byte(s)
		case "decodex":
			frame, err = repeated(rest)
		case "decode", "split":
		default:
			err = errors.New("unknown verb")
		}
		if err != nil {
			return "", fmt.Errorf("line %d: %w", n+1, err)
		}
		switch {
		case verb == "split":
			out.WriteString(describeSplit(frame, lim))
		case verb != "limits":
			out.WriteString(describeDecode(frame, lim))
		}
	}
	return out.String(), nil
}

func repeated(args string) ([]byte, error) {
	var n int
	var a, b, c string
	if _, err := fmt.Sscanf(args, "%d %q %q %q", &n, &a, &b, &c); err != nil {
		return nil, err
	}
	return []byte(strings.Repeat(a, n) + b + strings.Repeat(c, n)), nil
}

func describeSplit(frame []byte, lim Limits) string {
	members, err := SplitBatch(frame, lim)
	if err != nil {
		return describeError(err)
	}
	var b strings.Builder
	for i, m := range members {
		fmt.Fprintf(&b, "  member %d: %s\n", i, m)
	}
	return b.String()
}

func describeDecode(frame []byte, lim Limits) string {
	kept := bytes.Clone(frame)
	env, err := Decode(frame, lim)
	if !bytes.Equal(kept, frame) {
		return "  THE FRAME WAS WRITTEN TO\n"
	}
	if err != nil {
		return describeError(err)
	}
	var b strings.Builder
	line := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, "  "+format+"\n", args...)
		}
	}
	line(true, "%s", env.Kind)
	line(!env.ID.IsZero(), "id %s key %s", env.ID.Raw(), env.ID.Key())
	line(env.Kind != Response, "method %q", env.Method)
	line(env.Params != nil, "params %s", env.Params)
	line(env.HasName, "name %q", env.Name)
	line(env.Arguments != nil, "arguments %s", env.Arguments)
	line(env.Result != nil, "result %s", env.Result)
	line(env.Error != nil, "error %s", env.Error)
	if c := env.Cancel; c != nil {
		line(c.HasRequestID, "cancel id %q key %q ok %t", c.RequestID.Raw(), c.RequestID.Key(), c.RequestIDOK)
		line(c.Reason != "", "cancel reason %q", c.Reason)
	}
	m := &env.Meta
	line(m.Present, "meta object %t", m.IsObject)
	line(m.HasProtocolVersion, "version %q ok %t", m.ProtocolVersion, m.ProtocolVersionOK)
	line(m.ClientInfo != nil, "client info %s", m.ClientInfo)
	line(m.ClientCapabilities != nil, "client capabilities %s", m.ClientCapabilities)
	line(m.LogLevel != nil, "log level %s", m.LogLevel)
	line(m.ProgressToken != nil, "progress token %s ok %t", m.ProgressToken, m.ProgressTokenOK)
	line(m.TraceParent != "" || m.TraceState != "" || m.Baggage != "", "trace %q %q %q", m.TraceParent, m.TraceState, m.Baggage)
	if m.Present {
		if err := env.CheckModernMeta(); err != nil {
			line(true, "not modern: %s", err)
		} else {
			line(true, "modern")
		}
	}
	return b.String()
}

func describeError(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("  FOREIGN ERROR %v\n", err)
	}
	s := fmt.Sprintf("  refused %d %s: %s\n", e.Code, e.Reason, e.Message)
	if e.Kind != Invalid {
		s += fmt.Sprintf("  meant as %s\n", e.Kind)
	}
	if !e.ID.IsZero() {
		s += fmt.Sprintf("  id %s\n", e.ID.Raw())
	}
	return s
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(g), len(w))
}
