package telemetry

// What operators may do on the admin listener of package service: the values of the label action of
// [MetricAdminActions].
const (
	ActionEndRequest  = "end_request"
	ActionEndSession  = "end_session"
	ActionCloseStream = "close_stream"
	ActionDrain       = "drain"
	ActionLogLevel    = "log_level"
	ActionProfile     = "profile"
)

// adminActions lists these actions.
func adminActions() []string {
	return []string{ActionEndRequest, ActionEndSession, ActionCloseStream, ActionDrain, ActionLogLevel, ActionProfile}
}

// Values of the label outcome of [MetricAdminActions].
const (
	ActionDone    = "done"
	ActionRefused = "refused"
)
