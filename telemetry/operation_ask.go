package telemetry

import "time"

// Asked records that the result of the operation asks its client something: a request of method, such
// as "elicitation/create", that the client may answer for a time to live, when it repeats its own request. round
// tells the questions of this result from others, and comes back with the answers.
func (op *Operation) Asked(method, round string, ttl time.Duration) {
	if op == nil {
		return
	}
	t := op.series.tel
	now := t.now()
	t.questions.seal(op.question(method), openQuestion{round, now, now.Add(ttl)})
	t.count(MetricQuestionsAsked, bounded(method, askMethods()))
}

// Returned records that the request of the operation came again with a question of an earlier round, and whether
// it has the answer. With replicas the earlier one may have been served by another process.
func (op *Operation) Returned(method, round string, answered bool) {
	if op == nil {
		return
	}
	t := op.series.tel
	t.questions.returned(op.question(method), round, answered)
	if answered {
		t.count(MetricQuestionsAnswered, bounded(method, askMethods()))
	}
}

// question returns the row of a question to the client of the operation.
func (op *Operation) question(method string) questionKey {
	info := op.info()
	name, version := info.client(op.series.tel.clients)
	return questionKey{method, name, version}
}
