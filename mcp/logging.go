package mcp

import "slices"

// MethodLoggingSetLevel sets the lowest level of the log messages that a client gets (legacy).
const MethodLoggingSetLevel = "logging/setLevel"

// A LoggingLevel is a syslog severity (RFC 5424), as notifications/message carries it.
type LoggingLevel string

const (
	LogDebug     LoggingLevel = "debug"
	LogInfo      LoggingLevel = "info"
	LogNotice    LoggingLevel = "notice"
	LogWarning   LoggingLevel = "warning"
	LogError     LoggingLevel = "error"
	LogCritical  LoggingLevel = "critical"
	LogAlert     LoggingLevel = "alert"
	LogEmergency LoggingLevel = "emergency"
)

// LoggingLevels lists the levels, the least severe first. The caller owns the slice.
func LoggingLevels() []LoggingLevel {
	return []LoggingLevel{LogDebug, LogInfo, LogNotice, LogWarning, LogError, LogCritical, LogAlert, LogEmergency}
}

// Severity orders the levels: 0 is debug; -1 means that l is not a level.
func (l LoggingLevel) Severity() int { return slices.Index(LoggingLevels(), l) }

// SetLevelParams is the params member of logging/setLevel (legacy).
type SetLevelParams struct {
	Level LoggingLevel `json:"level"`
}

// LoggingMessageParams is the params member of notifications/message. Data is any JSON
// value.
type LoggingMessageParams struct {
	Level  LoggingLevel `json:"level"`
	Logger string       `json:"logger,omitempty"`
	Data   any          `json:"data"`
}
