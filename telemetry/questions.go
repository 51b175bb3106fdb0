package telemetry

import (
	"errors"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxQuestionRows bounds the clients of [questions]. Over it the row that was used least recently
// gives its counts to the row of its method with the client "_OTHER".
const maxQuestionRows = 256

// questions counts what clients are asked by method, client and version: the requests to legacy clients,
// the questions in the results of modern ones, and those of tasks. It is safe for concurrent use. The zero value
// is empty.
type questions struct {
	mu    sync.Mutex // guards the rest
	rows  map[questionKey]*questionCounts
	other map[string]*questionCounts // by method
	used  uint64                     // grows with each use
	// opened is how many questions modern clients have of which the rows know.
	opened int
	// tasks has the questions of tasks that wait for an answer, which the limits of tasks bound.
	tasks map[*taskQuestion]struct{}
}

// A taskQuestion is a question of a task.
type taskQuestion struct {
	questionKey
	since time.Time
}

// A questionKey has the method of a request to a client, and what the client says of itself.
type questionKey struct{ method, client, version string }

type questionCounts struct {
	used       uint64 // the value of questions.used at the last use
	answered   uint64
	unanswered map[string]uint64 // by error.type
	// sealed are the questions that modern clients got with the state of their request, and redeemed
	// those whose answer has come with it.
	sealed, redeemed uint64
	open             []openQuestion // those that may still be answered, the oldest first
}

// notReturned is why a question of a modern client has no answer: the request has not come again with its
// state while that was good, or without the answer.
const notReturned = "not_returned"

func newQuestionCounts() *questionCounts { return &questionCounts{unanswered: map[string]uint64{}} }

// begun notes that a task waits for an answer from a moment on.
func (q *questions) begun(key questionKey, now time.Time) *taskQuestion {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked := &taskQuestion{key, now}
	if q.tasks == nil {
		q.tasks = map[*taskQuestion]struct{}{}
	}
	q.tasks[asked] = struct{}{}
	return asked
}

// over counts the end of the wait of a task.
func (q *questions) over(asked *taskQuestion, err error, errorType string) {
	q.mu.Lock()
	delete(q.tasks, asked)
	q.mu.Unlock()
	q.ended(asked.questionKey, err, errorType)
}

// ended counts the end of the wait for a response.
func (q *questions) ended(key questionKey, err error, errorType string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := q.row(key)
	if answered(err) {
		row.answered++
	} else {
		row.unanswered[errorType]++
	}
}

// answered reports whether the wait for a response has ended with one. An error of the client is a
// response.
func answered(err error) bool {
	refused := (*mcp.ClientError)(nil)
	return err == nil || errors.As(err, &refused)
}

// seal counts a question in the result of a modern client.
func (q *questions) seal(key questionKey, asked openQuestion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := q.row(key)
	row.sealed++
	q.open(row, asked)
}

// returned counts that a modern client has come again with the state of a round, and whether it has answered
// the question.
func (q *questions) returned(key questionKey, round string, answered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row := q.row(key)
	if answered {
		row.redeemed++
	}
	q.close(row, round)
}

// row returns a row, which it makes if there is none. The caller must hold q.mu.
func (q *questions) row(key questionKey) *questionCounts {
	q.used++
	row := q.rows[key]
	if row == nil {
		row = newQuestionCounts()
		if q.rows == nil {
			q.rows, q.other = map[questionKey]*questionCounts{}, map[string]*questionCounts{}
		}
		if len(q.rows) >= maxQuestionRows {
			q.evict()
		}
		q.rows[key] = row
	}
	row.used = q.used
	return row
}

// evict removes the row that was used least recently. The caller must hold q.mu.
func (q *questions) evict() {
	var oldest questionKey
	first := q.used
	for key, row := range q.rows {
		if row.used < first {
			oldest, first = key, row.used
		}
	}
	row, sum := q.rows[oldest], q.other[oldest.method]
	if sum == nil {
		sum = newQuestionCounts()
		q.other[oldest.method] = sum
	}
	sum.answered += row.answered
	sum.sealed += row.sealed
	sum.redeemed += row.redeemed
	addCounts(sum.unanswered, row.unanswered)
	q.forget(row, 0, len(row.open))
	delete(q.rows, oldest)
}

// report returns the rows of the page at a moment. open are the requests that wait for their response.
func (q *questions) report(open []report.Outbound, now time.Time) []report.Question {
	rows := map[questionKey]*report.Question{}
	of := func(key questionKey) *report.Question {
		row := rows[key]
		if row == nil {
			row = &report.Question{Method: key.method, Client: key.client, ClientVersion: key.version, Unanswered: map[string]uint64{}}
			rows[key] = row
		}
		return row
	}
	add := func(key questionKey, counts *questionCounts) {
		row := of(key)
		row.Answered += counts.answered + counts.redeemed
		row.Asked += counts.answered + counts.sealed
		if len(counts.open) > 0 {
			row.Open += len(counts.open)
			row.OldestAgeSeconds = max(row.OldestAgeSeconds, now.Sub(counts.open[0].since).Seconds())
		}
		if over := counts.redeemed + uint64(len(counts.open)); counts.sealed > over {
			row.Unanswered[notReturned] += counts.sealed - over
		}
		for why, n := range counts.unanswered {
			row.Unanswered[why] += n
			row.Asked += n
		}
	}
	q.mu.Lock()
	q.expire(now)
	for key, counts := range q.rows {
		add(key, counts)
	}
	for method, counts := range q.other {
		add(questionKey{method: method, client: other}, counts)
	}
	wait := func(key questionKey, age float64) {
		row := of(key)
		row.Asked++
		row.Open++
		row.OldestAgeSeconds = max(row.OldestAgeSeconds, age)
	}
	for asked := range q.tasks {
		wait(asked.questionKey, now.Sub(asked.since).Seconds())
	}
	q.mu.Unlock()
	for i := range open {
		o := &open[i]
		wait(questionKey{o.Method, o.Client, o.ClientVersion}, o.AgeSeconds)
	}
	list := make([]report.Question, 0, len(rows))
	for _, row := range rows {
		list = append(list, *row)
	}
	order.By(list, func(a, b *report.Question) bool { return a.Before(b) })
	return list
}
