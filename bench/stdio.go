package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A stdioLoad keeps as many requests in flight on one pipe as there are callers.
type stdioLoad struct {
	scenario scenario
	message  message
	pipe     io.ReadWriter
	in       *bufio.Reader
	request  []byte // a line
	id       []byte // part of request
	next     int
	last     int               // bytes of the last answer
	sent     map[int]time.Time // when each request in flight was sent
}

func newStdioLoad(s scenario, m message, pipe io.ReadWriter) *stdioLoad {
	request := append(bytes.Clone(m.body), '\n')
	return &stdioLoad{
		scenario: s, message: m, pipe: pipe, in: bufio.NewReaderSize(pipe, 1<<20),
		request: request, id: servers.ID(request), next: firstID, sent: map[int]time.Time{},
	}
}

func (l *stdioLoad) size() int { return l.last }
func (l *stdioLoad) close()    {}

// run returns when the process ends, if the server does not answer.
func (l *stdioLoad) run(d time.Duration) (took []time.Duration, err error) {
	end := time.Now().Add(d)
	for range l.scenario.callers {
		if err := l.send(); err != nil {
			return nil, err
		}
	}
	for len(l.sent) > 0 {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		now := time.Now()
		l.last = len(line) - 1
		digits := servers.ID(line)
		id, _ := strconv.Atoi(string(digits))
		begin, ok := l.sent[id]
		if !ok {
			return nil, fmt.Errorf("nobody has asked for this: %.300q", line)
		}
		delete(l.sent, id)
		took = append(took, now.Sub(begin))
		if len(took) == 1 {
			if err := l.message.check(l.scenario, digits, line); err != nil {
				return nil, err
			}
		} else if bytes.Contains(line, []byte(`"error":`)) {
			return nil, fmt.Errorf("an error: %.300q", line)
		}
		if now.Before(end) {
			if err := l.send(); err != nil {
				return nil, err
			}
		}
	}
	if len(took) == 0 {
		return nil, errors.New("no answer")
	}
	return took, nil
}

func (l *stdioLoad) send() error {
	l.next++
	putID(l.id, l.next)
	l.sent[l.next] = time.Now()
	_, err := l.pipe.Write(l.request)
	return err
}
