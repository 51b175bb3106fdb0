package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// A Shell sends commands to a server, as the program redis-cli does. It ends with its test.
type Shell struct {
	tb   testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// Dial opens a shell at an address. The server must need no password.
func Dial(tb testing.TB, addr string) *Shell {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &Shell{tb: tb, conn: conn, in: bufio.NewReader(conn)}
}

// Do returns the answers to a command in one line: of KEYS all keys, of others mostly one. An error of the
// server ends the test.
func (s *Shell) Do(command string) (all []string) {
	s.tb.Helper()
	if _, err := fmt.Fprintf(s.conn, "%s\r\n", command); err != nil {
		s.tb.Fatal(err)
	}
	for left := 1; left > 0; left-- {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.tb.Fatal(err)
		}
		text := strings.TrimSpace(line[1:])
		switch n, _ := strconv.Atoi(text); line[0] {
		case ':', '+':
			all = append(all, text)
		case '*':
			left += n
		case '$':
			value := make([]byte, n+2)
			if _, err := io.ReadFull(s.in, value); err != nil {
				s.tb.Fatal(err)
			}
			all = append(all, string(value[:n]))
		default:
			s.tb.Fatalf("%s: %s", command, line)
		}
	}
	return all
}

// Number returns the answer to a command that answers with a number.
func (s *Shell) Number(command string) int {
	s.tb.Helper()
	n, err := strconv.Atoi(s.Do(command)[0])
	if err != nil {
		s.tb.Fatalf("%s: %v", command, err)
	}
	return n
}
