package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// memoryPath is the path of the request that lets a server call itself in memory.
const memoryPath = "/bench/memory"

// A memoryLoad lets a process be client and server at the same time.
type memoryLoad struct {
	scenario scenario
	message  message
	url      string
	last     int // bytes of the last answer
}

func (l *memoryLoad) size() int { return l.last }
func (l *memoryLoad) close()    {}

func (l *memoryLoad) run(d time.Duration) ([]time.Duration, error) {
	query := url.Values{"callers": {strconv.Itoa(l.scenario.callers)}, "for": {d.String()}}
	resp, err := client().Post(l.url+"?"+query.Encode(), "application/json", bytes.NewReader(l.message.body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %.300q", resp.StatusCode, body)
	}
	n, err := strconv.Atoi(resp.Header.Get("Answers"))
	if err != nil || n < 1 || len(body) < 8*n {
		return nil, fmt.Errorf("not %q answers: %d bytes", resp.Header.Get("Answers"), len(body))
	}
	took := make([]time.Duration, n)
	for i := range took {
		took[i] = time.Duration(binary.LittleEndian.Uint64(body[8*i:]))
	}
	answer := body[8*n:]
	l.last = len(bytes.TrimSpace(answer))
	id := bytes.Clone(servers.ID(l.message.body))
	putID(id, firstID+1)
	return took, l.message.check(l.scenario, id, answer)
}

// A memoryHandler calls a server in its own process. Its response has the duration of each
// answer, in nanoseconds of eight bytes, and the first answer of a caller.
type memoryHandler struct {
	connect func() (servers.Ask, error)
	callers []*memoryCaller // stay connected
}

type memoryCaller struct {
	ask   servers.Ask
	took  []time.Duration
	first []byte // answer
}

func (h *memoryHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message, err := io.ReadAll(r.Body)
	n, err2 := strconv.Atoi(r.URL.Query().Get("callers"))
	d, err3 := time.ParseDuration(r.URL.Query().Get("for"))
	if err := errors.Join(err, err2, err3); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := h.run(n, d, message); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var answers int
	var body []byte
	for _, c := range h.callers[:n] {
		answers += len(c.took)
		for _, took := range c.took {
			body = binary.LittleEndian.AppendUint64(body, uint64(took))
		}
	}
	w.Header().Set("Answers", strconv.Itoa(answers))
	_, _ = w.Write(append(body, h.callers[0].first...)) // an error means that the client is gone
}

func (h *memoryHandler) run(n int, d time.Duration, message []byte) error {
	for len(h.callers) < n {
		ask, err := h.connect()
		if err != nil {
			return err
		}
		h.callers = append(h.callers, &memoryCaller{ask: ask})
	}
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for _, c := range h.callers[:n] {
		all.Go(func() {
			// With capacity for the end of the line.
			if err := c.run(end, append(bytes.Clone(message), '\n')[:len(message)]); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// run sends requests until the end, at least one.
func (c *memoryCaller) run(end time.Time, message []byte) error {
	id := servers.ID(message)
	c.took = c.took[:0]
	for next := firstID + 1; ; next++ {
		putID(id, next)
		begin := time.Now()
		answer, err := c.ask(message)
		now := time.Now()
		if err != nil {
			return err
		}
		c.took = append(c.took, now.Sub(begin))
		if len(c.took) == 1 {
			c.first = append(c.first[:0], answer...)
		} else if bytes.Contains(answer, []byte(`"error":`)) {
			return fmt.Errorf("an error: %.300q", answer)
		}
		if !now.Before(end) {
			return nil
		}
	}
}
