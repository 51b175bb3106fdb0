package telemetry

// Ask records that the handler of the task asks its client something, by a request of method, such as
// "elicitation/create", and waits. client and version are what the client says of itself. The caller must call the
// function that Ask returns when the wait ends, with nil or with what has ended it before an answer came.
func (task *Task) Ask(method, client, version string) (end func(err error)) {
	if task == nil {
		return func(error) {}
	}
	t := task.tel
	asked := t.questions.begun(questionKey{method, client, version}, t.now())
	return func(err error) {
		errorType, _ := askError(err)
		t.questions.over(asked, err, errorType)
		method := bounded(method, askMethods())
		t.count(MetricQuestionsAsked, method)
		if answered(err) {
			t.count(MetricQuestionsAnswered, method)
		}
	}
}
