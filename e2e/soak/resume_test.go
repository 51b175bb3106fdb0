package soak

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// legacyResume loses the streams of its calls, and comes back for the answers to some of them. It
// leaves others to the event store, which has too little room for all.
func (w *world) legacyResume(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if !c.initialize(ctx, true) {
			continue
		}
		for i := 0; i < 10 && ctx.Err() == nil; i++ {
			seen := c.lose(ctx, fmt.Sprint(i))
			if seen == "" || rand.IntN(2) == 0 {
				continue
			}
			nap(40 * time.Millisecond) // in the middle of the call, or after its end
			answer, last := c.resume(ctx, seen)
			if answer && rand.IntN(2) == 0 {
				c.resume(ctx, last) // there is nothing more
			}
		}
		if rand.IntN(2) == 0 {
			c.delete(ctx)
		}
	}
}

// lose calls a tool, reads the first event of its stream and leaves. It returns the event's id.
func (c *httpClient) lose(ctx context.Context, id string) (seen string) {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	c.w.begin()
	resp, err := c.http.Do(c.request(short, callFrame(id, "trickle", fmt.Sprintf(`{"n":%d}`, rand.IntN(30<<10)), false)))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			return id
		}
	}
	return ""
}

// resume reads a stream from an event on. It returns the id of the last event, and whether the answer
// was there.
func (c *httpClient) resume(ctx context.Context, seen string) (answer bool, last string) {
	req := c.request(ctx, "")
	req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	req.Header.Set("Last-Event-ID", seen)
	resp, err := c.http.Do(req)
	if err != nil {
		return false, seen
	}
	defer resp.Body.Close()
	last = seen
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
		answer = answer || strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), `"result"`)
	}
	return answer, last
}
