package report

import (
	"cmp"
	"io"
)

// Question has the sums of what clients of one name and version were asked with one method, since the
// start. Asked = Answered + all Unanswered + Open, but a modern client may have answered here what another
// replica has asked.
type Question struct {
	Method           string            `json:"method"`
	Client           string            `json:"client,omitempty"`
	ClientVersion    string            `json:"client_version,omitempty"`
	Open             int               `json:"open"` // questions that clients may still answer
	OldestAgeSeconds float64           `json:"oldest_age_seconds"`
	Asked            uint64            `json:"asked"`
	Answered         uint64            `json:"answered"`   // also with an error
	Unanswered       map[string]uint64 `json:"unanswered"` // by what has ended the wait
}

// Before tells whether a row comes before another one: the oldest open question first, then the most
// questions without an answer.
func (q *Question) Before(other *Question) bool {
	return cmp.Or(
		cmp.Compare(other.OldestAgeSeconds, q.OldestAgeSeconds), cmp.Compare(other.unanswered(), q.unanswered()), cmp.Compare(other.Asked, q.Asked),
		cmp.Compare(q.Client, other.Client), cmp.Compare(q.ClientVersion, other.ClientVersion), cmp.Compare(q.Method, other.Method),
	) < 0
}

func (q *Question) unanswered() (n uint64) {
	for _, count := range q.Unanswered {
		n += count
	}
	return n
}

// writeQuestions writes the sums of the requests to clients.
func (rep *Requests) writeQuestions(w io.Writer) {
	writeSection(w, "ASKED OF CLIENT\tVERSION\tMETHOD\tOPEN\tOLDEST\tASKED\tANSWERED\tUNANSWERED\tWHY", len(rep.Questions), func(i int) []any {
		q := &rep.Questions[i]
		return []any{
			dash(q.Client), dash(q.ClientVersion), q.Method, q.Open, seconds(q.OldestAgeSeconds),
			q.Asked, q.Answered, q.unanswered(), countsText(q.Unanswered),
		}
	})
}
