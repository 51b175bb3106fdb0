package mcp

import (
	"cmp"
	"errors"
	"time"
)

// A Refusal is the error of an authenticator, a rule of admission or a middleware that does
// not let a request through, such as a quota. It is never counted as an error of the service.
// Over HTTP the response has its status, Retry-After and challenge. On every transport the
// JSON-RPC error has the status as its code, and reason and retryAfter in its data. The codes
// are an application's, outside the range that JSON-RPC reserves.
type Refusal struct {
	// Status is the HTTP status: 400, 401, 403, 429 or 503. Any other counts as 403.
	Status int
	// Reason says why, as a label of metrics: one word of a small set, such as "quota".
	Reason string
	// PublicReason is the reason that the caller is told (data.reason) if it must not learn
	// Reason, such as which check a token has failed. "" stands for Reason.
	PublicReason string
	// By names the rule or middleware that refuses, as a label of metrics, such as "rate_limit".
	By string
	// Limit names the limit that was reached, for the caller (data.limit), or is "".
	Limit string
	// Message is the text for the caller. "" stands for a default text for the status.
	Message string
	// RetryAfter is the time after which a retry makes sense, rounded up to seconds. 0 means
	// that nothing is known about it.
	RetryAfter time.Duration
	// Challenge is the value of the header WWW-Authenticate, for 400, 401 and 403, or "".
	Challenge string
	// Err is the underlying error, for the operator only. May be nil.
	Err error
}

// Error returns the reason, the message and the underlying error.
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

// Unwrap returns the underlying error.
func (r *Refusal) Unwrap() error { return r.Err }

// Code returns the status as the code of the JSON-RPC error.
func (r *Refusal) Code() Code {
	switch code := Code(r.Status); code {
	case CodeBadRequest, CodeUnauthorized, CodeTooManyRequests, CodeUnavailable:
		return code
	}
	return CodeForbidden
}

// RPC returns the JSON-RPC error that the caller gets. [AsRefusal] finds r in it.
func (r *Refusal) RPC() *Error {
	return &Error{
		Code: r.Code(), Message: cmp.Or(r.Message, refusalTexts[r.Code()]), refusal: r,
		Data: ErrorData{Reason: cmp.Or(r.PublicReason, r.Reason), Limit: r.Limit, RetryAfter: r.RetryAfterSeconds()},
	}
}

var refusalTexts = map[Code]string{
	CodeBadRequest:      "the request is malformed",
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
	return errors.AsType[*Refusal](err)
}
