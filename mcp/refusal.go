package mcp

import (
	"cmp"
	"errors"
	"time"
)

// A Refusal is the error by which somebody on the way of a request does not let it through:
// an authenticator, a rule, a quota. It is never counted as an error of the service. Over
// HTTP the response has its status, Retry-After and challenge; the JSON-RPC error, which
// byte streams and the members of a batch have as well, has the status as its code, as an
// application may (the range of JSON-RPC is not touched), and reason and retryAfter in its data.
type Refusal struct {
	// Status is the HTTP status: 401, 403, 429 or 503. Any other counts as 403.
	Status int
	// Reason says why, as a label of metrics: one word of a small set, such as "quota".
	Reason string
	// By says who refuses, as a label of metrics, such as "rate_limit".
	By string
	// Message is what the caller is told. "" is a text that goes with the status.
	Message string
	// RetryAfter is when it makes sense to ask again; it is rounded up to seconds. 0 says
	// nothing about it.
	RetryAfter time.Duration
	// Challenge is the value of the header WWW-Authenticate, for 401 and 403, or "".
	Challenge string
	// Err is what is behind it, for the operator alone, or nil.
	Err error
}

// Codes of refusals: they are those of HTTP.
const (
	CodeUnauthorized    Code = 401
	CodeForbidden       Code = 403
	CodeTooManyRequests Code = 429
	CodeUnavailable     Code = 503
)

// Error returns reason and message, and what is behind them.
func (r *Refusal) Error() string {
	text := "refused: " + r.Reason
	if r.Message != "" {
		text += ": " + r.Message
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Unwrap returns what is behind the refusal.
func (r *Refusal) Unwrap() error { return r.Err }

// Code returns the status as the code of the JSON-RPC error.
func (r *Refusal) Code() Code {
	switch code := Code(r.Status); code {
	case CodeUnauthorized, CodeTooManyRequests, CodeUnavailable:
		return code
	}
	return CodeForbidden
}

// RPC returns the JSON-RPC error that the caller gets. [AsRefusal] finds r in it.
func (r *Refusal) RPC() *Error {
	return &Error{
		Code: r.Code(), Message: cmp.Or(r.Message, refusalTexts[r.Code()]), refusal: r,
		Data: ErrorData{Reason: r.Reason, RetryAfter: r.RetryAfterSeconds()},
	}
}

var refusalTexts = map[Code]string{
	CodeUnauthorized:    "authentication is required",
	CodeForbidden:       "this is not allowed",
	CodeTooManyRequests: "there are too many requests",
	CodeUnavailable:     "this cannot be had now",
}

// RetryAfterSeconds returns RetryAfter in whole seconds, rounded up; 0 if there is none.
func (r *Refusal) RetryAfterSeconds() int {
	if r.RetryAfter <= 0 {
		return 0
	}
	return int((r.RetryAfter-1)/time.Second) + 1
}

// AsRefusal finds the outermost Refusal in err's tree.
func AsRefusal(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}
