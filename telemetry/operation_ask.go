package telemetry

// Asked records that the result of the operation asks its client something: a request of method, such
// as "elicitation/create", that the client answers when it repeats its own request.
func (op *Operation) Asked(method string) {
	if op == nil {
		return
	}
	t := op.series.tel
	t.questions.seal(op.question(method))
	t.count(MetricQuestionsAsked, bounded(method, askMethods()))
}

// Answered records that the request of the operation has the answer to a question of an earlier one.
// With replicas that one may have been served by another process.
func (op *Operation) Answered(method string) {
	if op == nil {
		return
	}
	t := op.series.tel
	t.questions.redeem(op.question(method))
	t.count(MetricQuestionsAnswered, bounded(method, askMethods()))
}

// question returns the row of a question to the client of the operation.
func (op *Operation) question(method string) questionKey {
	info := op.info()
	name, version := info.client(op.series.tel.clients)
	return questionKey{method, name, version}
}
