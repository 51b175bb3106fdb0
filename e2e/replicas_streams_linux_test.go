package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An interrupted is a client that reads one stream of events over connections that break. It goes on after the
// last event that it has.
type interrupted struct {
	*legacySession // through the balancer
	out            *openStream
	next           int    // line of out
	last           string // id of the last event
}

// starts calls the tool that reports progress.
func (l *legacySession) starts(t *testing.T, id, steps, ms int) *interrupted {
	t.Helper()
	r := call(id, "progress", object{"steps": steps, "ms": ms}).with("progressToken", id).inLegacy()
	c := &interrupted{legacySession: l, out: l.openWith(t, http.MethodPost, l.headers(), r.frame())}
	if c.out.status != http.StatusOK {
		t.Fatalf("the call: %d %s", c.out.status, c.out)
	}
	return c
}

// resumes breaks the connection, and goes on over another one.
func (c *interrupted) resumes(t *testing.T) {
	t.Helper()
	c.out.drop()
	header := c.headers()
	header.Set("Last-Event-ID", c.last)
	eventually(t, func() error {
		c.out, c.next = c.openWith(t, http.MethodGet, header, ""), 0
		if c.out.status == http.StatusConflict { // the broken connection still counts as a reader
			c.out.drop()
			return fmt.Errorf("GET: %d", c.out.status)
		}
		return nil
	})
	if c.out.status != http.StatusOK {
		c.out.drained(t)
		t.Fatalf("GET after %s: %d %s", c.last, c.out.status, c.out)
	}
}

// read returns the next message of the stream.
func (c *interrupted) read(t *testing.T) message {
	t.Helper()
	for id := ""; ; {
		var line string
		line, c.next = c.out.await(t, "event", c.next, func(line string) bool { return line != "" })
		switch field, value, _ := strings.Cut(line, ": "); {
		case field == "id":
			id = value
		case field == "data" && value != "":
			if id == "" {
				t.Fatalf("an event without an id: %s", c.out)
			}
			c.last = id
			return decode(t, value)
		}
	}
}

// readProgress expects the reports of some steps.
func (c *interrupted) readProgress(t *testing.T, from, to int) {
	t.Helper()
	for step := from; step <= to; step++ {
		if m := c.read(t); m.Params.Progress != float64(step) {
			t.Fatalf("%s comes in place of step %d", m, step)
		}
	}
}

// readAnswer expects the answer to the call, and no event after it.
func (c *interrupted) readAnswer(t *testing.T, id, steps int) {
	t.Helper()
	if m := c.read(t); string(m.ID) != fmt.Sprint(id) || m.text() != fmt.Sprintf("%d steps done", steps) {
		t.Fatalf("the answer: %s", m)
	}
	c.out.drained(t)
	for _, line := range c.out.snapshot()[c.next:] {
		if line != "" {
			t.Fatalf("after the answer: %s", c.out)
		}
	}
}

// storedAnswers are the counts of stored answers of several servers.
type storedAnswers struct{ stored, fetched, expired, waiting float64 }

// storedAnswersOf reads the counts of a server.
func storedAnswersOf(m metrics) storedAnswers {
	return storedAnswers{
		m.sum("vitrine_responses_stored_total"), m.sum("vitrine_responses_fetched_total"),
		m.sum("vitrine_responses_expired_total"), m.sum("vitrine_responses_waiting"),
	}
}

func (a storedAnswers) plus(b storedAnswers) storedAnswers {
	return storedAnswers{a.stored + b.stored, a.fetched + b.fetched, a.expired + b.expired, a.waiting + b.waiting}
}

// awaitStored waits until servers together count so many stored answers, each of which has been fetched, has
// expired or waits.
func awaitStored(t *testing.T, all []*server, want storedAnswers) {
	t.Helper()
	if want.stored != want.fetched+want.expired+want.waiting {
		t.Fatalf("the test wants what cannot be: %+v", want)
	}
	eventually(t, func() error {
		var sum storedAnswers
		for _, s := range all {
			sum = sum.plus(storedAnswersOf(s.metrics(t)))
		}
		if sum != want {
			return fmt.Errorf("the replicas count %+v, want %+v", sum, want)
		}
		return nil
	})
}

// storedAt returns how many answers each server has stored.
func storedAt(t *testing.T, all []*server) map[*server]float64 {
	t.Helper()
	at := map[*server]float64{}
	for _, s := range all {
		at[s] = s.metrics(t).sum("vitrine_responses_stored_total")
	}
	return at
}

// A client whose connection breaks goes on at whichever replica the balancer chooses, without a gap and without
// a repetition.
func TestStreamIsResumedAtAnyReplica(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t)
	front := inTurns(t, all)

	t.Run("while the handler runs", func(t *testing.T) {
		const id, steps, some = 7, 40, 5
		c := front.initialize(t).starts(t, id, steps, 100)
		writer := holder(t, all)
		for step := 1; step <= steps; step += some {
			c.readProgress(t, step, step+some-1)
			c.resumes(t)
		}
		c.readAnswer(t, id, steps)
		elsewhere := 0.0
		for _, s := range all {
			if s != writer {
				elsewhere += s.metrics(t).sum("vitrine_streams_resumed_total")
			}
		}
		if elsewhere < 2 {
			t.Errorf("the stream was resumed %v times at replicas that do not write it", elsewhere)
		}
		for _, s := range all {
			s.settled(t)
		}
	})
	before := 0.0 // 1 if another replica than the writer has sent the answer
	for _, n := range storedAt(t, all) {
		before += n
	}

	t.Run("after its end", func(t *testing.T) {
		const steps = 6
		sum := storedAnswers{stored: before, fetched: before}
		var clients []*interrupted
		var writers []*server
		at := storedAt(t, all)
		for id := range 3 {
			c := front.initialize(t).starts(t, id, steps, 50)
			c.readProgress(t, 1, 1)
			c.out.drop()
			clients = append(clients, c)
			sum.stored, sum.waiting = sum.stored+1, sum.waiting+1
			awaitStored(t, all, sum)
			for s, now := range storedAt(t, all) {
				if now > at[s] {
					writers, at[s] = append(writers, s), now
				}
			}
		}

		for _, s := range all {
			if s == writers[0] {
				continue // it would count without being told
			}
			again := *clients[0]
			again.legacySession = again.at(s)
			again.resumes(t)
			again.readProgress(t, 2, steps)
			again.readAnswer(t, 0, steps)
		}
		sum.fetched, sum.waiting = sum.fetched+1, sum.waiting-1
		awaitStored(t, all, sum)

		deleted := clients[1]
		deleted.send(t, http.MethodDelete, deleted.headers(), "")
		sum.expired, sum.waiting = sum.expired+1, sum.waiting-1
		awaitStored(t, all, sum)

		c := clients[2]
		for step := 2; step <= steps; step++ {
			c.resumes(t)
			c.readProgress(t, step, step)
		}
		c.resumes(t)
		c.readAnswer(t, 2, steps)
		sum.fetched, sum.waiting = sum.fetched+1, sum.waiting-1
		awaitStored(t, all, sum)
	})

	// What is in the store comes first. The replica counts as dead when it has not answered for about 30 seconds.
	t.Run("after its replica was killed", func(t *testing.T) {
		const id, had, stored = 9, 3, 8
		c := front.initialize(t).starts(t, id, 1000, 50)
		c.readProgress(t, 1, had)
		writer := holder(t, all)
		ahead := *c
		ahead.resumes(t)
		ahead.readProgress(t, had+1, stored)
		ahead.out.drop()
		writer.kill(t)

		c.resumes(t)
		c.readProgress(t, had+1, stored)
		m := c.read(t)
		for step := stored + 1; m.Params.Progress == float64(step); step++ {
			m = c.read(t)
		}
		var data struct{ Reason string }
		if m.Error == nil || json.Unmarshal(m.Error.Data, &data) != nil || string(m.ID) != fmt.Sprint(id) || data.Reason != "replica_lost" {
			t.Errorf("the end of the stream: %s", m)
		}
		c.out.drained(t)
	})
}
