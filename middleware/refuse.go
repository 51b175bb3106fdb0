package middleware

import "github.com/vitrine-mcp/vitrine/mcp"

// Refuse returns the result of a middleware that refuses a request. The middleware returns
// it and does not call the next handler:
//
//	return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "quota", By: "quota", RetryAfter: time.Minute})
//
// The refusal is counted by its fields Reason and By, and never as an error of the service. An
// HTTP client gets the status, Retry-After and challenge, unless its response has already begun
// as an event stream.
func Refuse(r mcp.Refusal) (mcp.Result, error) { return nil, &r }
