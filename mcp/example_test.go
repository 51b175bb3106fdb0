package mcp_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// The caller, and so the model, gets the text. The operator's log has the whole error.
func ExampleToolErrorf() {
	err := mcp.ToolErrorf("the forecast of %s is not ready; try again in an hour", "Bern")
	err.Err = errors.New("dial tcp 10.0.0.7:5432: connection refused")
	told, _ := mcp.AsToolError(fmt.Errorf("forecast: %w", err))
	fmt.Println("caller:  ", told.Text)
	fmt.Println("operator:", err)

	// Output:
	// caller:   the forecast of Bern is not ready; try again in an hour
	// operator: the forecast of Bern is not ready; try again in an hour: dial tcp 10.0.0.7:5432: connection refused
}

// An error that the caller has made does not count against the service.
func ExampleCallerFault() {
	unknown := mcp.ToolErrorf("there is no city %q", "Bearn")
	fmt.Println(mcp.IsCallerFault(unknown), mcp.IsCallerFault(mcp.CallerFault(unknown)))

	// Output:
	// false true
}

// A handler can find out why its context has ended.
func ExampleCauseOf() {
	ctx, cancel := context.WithCancelCause(context.Background())
	_, ended := mcp.CauseOf(ctx)
	fmt.Println(ended)
	cancel(mcp.ErrServerShutdown) // the server does that
	cause, ended := mcp.CauseOf(ctx)
	fmt.Println(cause, ended, "a fault of the service:", cause.Fault())

	// Output:
	// false
	// server_shutdown true a fault of the service: true
}
