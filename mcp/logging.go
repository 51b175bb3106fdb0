package mcp

import "slices"

// MethodSetLogLevel sets what messages must be worth to be sent to a client (legacy).
const MethodSetLogLevel = "logging/setLevel"

var _ = clientSends("", MethodSetLogLevel)

// A LogLevel is a syslog severity (RFC 5424), as notifications/message carries it.
type LogLevel string

const (
	LogDebug     LogLevel = "debug"
	LogInfo      LogLevel = "info"
	LogNotice    LogLevel = "notice"
	LogWarning   LogLevel = "warning"
	LogError     LogLevel = "error"
	LogCritical  LogLevel = "critical"
	LogAlert     LogLevel = "alert"
	LogEmergency LogLevel = "emergency"
)

// LogLevels lists the levels, the least severe first. The caller owns the slice.
func LogLevels() []LogLevel {
	return []LogLevel{LogDebug, LogInfo, LogNotice, LogWarning, LogError, LogCritical, LogAlert, LogEmergency}
}

// Severity orders the levels: 0 is debug; -1 is no level at all.
func (l LogLevel) Severity() int { return slices.Index(LogLevels(), l) }

// SetLevelParams is the params member of logging/setLevel (legacy).
type SetLevelParams struct {
	Level LogLevel `json:"level"`
}

// LogMessageParams is the params member of notifications/message. Data is any JSON
// value.
type LogMessageParams struct {
	Level  LogLevel `json:"level"`
	Logger string   `json:"logger,omitempty"`
	Data   any      `json:"data"`
}
