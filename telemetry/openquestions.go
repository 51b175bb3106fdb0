package telemetry

import "time"

// maxOpenQuestions bounds the questions of which [questions] knows since when a modern client has them. Over it
// the oldest one of the row with the most counts as not returned.
const maxOpenQuestions = 4096

// An openQuestion is a question that a modern client got with the state of its request, and may still answer.
type openQuestion struct {
	round        string // the traceparent of the request that has asked, which is in its state, or ""
	since, until time.Time
}

// open notes a question in the result of a modern client. The caller must hold q.mu.
func (q *questions) open(row *questionCounts, asked openQuestion) {
	row.open = append(row.open, asked)
	if q.opened++; q.opened > maxOpenQuestions {
		q.expire(asked.since)
	}
	if q.opened > maxOpenQuestions {
		most := row
		for _, other := range q.rows {
			if len(other.open) > len(most.open) {
				most = other
			}
		}
		q.forget(most, 0, 1)
	}
}

// close forgets a question of a round that is over. Without a traceparent it is the oldest one. The caller
// must hold q.mu.
func (q *questions) close(row *questionCounts, round string) {
	for i := range row.open {
		if row.open[i].round == round {
			q.forget(row, i, i+1)
			return
		}
	}
}

// expire forgets the questions whose state has expired. The caller must hold q.mu.
func (q *questions) expire(now time.Time) {
	for _, row := range q.rows {
		over := 0
		for over < len(row.open) && !now.Before(row.open[over].until) {
			over++
		}
		q.forget(row, 0, over)
	}
}

// forget removes some open questions of a row. The caller must hold q.mu.
func (q *questions) forget(row *questionCounts, from, to int) {
	row.open = append(row.open[:from], row.open[to:]...)
	q.opened -= to - from
}
