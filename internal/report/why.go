package report

import (
	"cmp"
	"strconv"
)

// why returns the best explanation for the end of a request, or "".
func (row *Trace) why() string {
	switch {
	case row.RejectReason != "":
		return row.RejectReason
	case row.Panic != "":
		return row.Panic
	case row.CancelCause != "":
		return row.CancelCause
	case row.DropReason != "":
		return row.DropReason
	case row.ToolError && row.ArgumentFaults != "":
		return "arguments rejected: " + row.ArgumentFaults
	case row.ToolError:
		return "tool_error"
	case row.ErrorCode != 0:
		return strconv.Itoa(row.ErrorCode) + " " + row.ErrorMessage
	}
	return row.SubscriptionEnd
}

// Fault says what went wrong, in the words of the handler or of the server; "" if nothing did.
func (row *Trace) Fault() string {
	switch {
	case row.ArgumentFaults != "":
		return "arguments rejected: " + row.ArgumentFaults
	case row.Panic != "":
		return "panic: " + row.Panic
	}
	return cmp.Or(row.Error, row.DecisionReason, row.ErrorMessage, row.CancelDetail)
}

// mostWhy bounds the column WHY, in characters. The page of a request has the whole text.
const mostWhy = 120

// WhyInShort returns why a request has ended as it did, and after that the words of an error or a refusal, for one cell of
// a table; "" if there is nothing to explain.
func (row *Trace) WhyInShort() string {
	text, words := row.why(), ""
	switch {
	case row.RejectReason != "":
		words = cmp.Or(row.DecisionReason, row.ErrorMessage)
	case row.Panic != "":
	case row.CancelCause != "":
		words = cmp.Or(row.CancelDetail, row.ErrorMessage)
	case row.DropReason != "" || row.ArgumentFaults != "":
	case row.ToolError || row.Error != row.ErrorMessage:
		words = row.Error
	}
	if words != "" {
		text += ": " + words
	}
	if all := []rune(text); len(all) > mostWhy {
		text = string(all[:mostWhy-1]) + "…"
	}
	return text
}
