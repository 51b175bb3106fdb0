package service_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// The error of a handler is for the operator, unless the operator lets callers see it.
func TestErrorDetailsAreForDevelopment(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "the tool failed; its operator can look it up by the trace id "},
		{[]string{"--error-details"}, "no such table"},
	} {
		srv := server.New("test", "1")
		server.AddTool(srv, server.Tool{Name: "fail"}, func(context.Context, *server.Call, struct{}) (string, error) {
			return "", errors.New("no such table")
		})
		answer := start(t, srv, tt.args...).call("fail", "{}")
		require.NoError(t, answer.err)
		require.Contains(t, answer.Result.Content[0].Text, tt.want)
	}
}
