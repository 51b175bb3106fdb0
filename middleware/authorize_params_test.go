package middleware_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A member that the question does not need may have any type. Servers ignore such members.
func TestOtherMembersDoNotHideWhatIsDenied(t *testing.T) {
	h := middleware.Authorize(nil, noSecrets)(answering("served"))
	for _, other := range []string{
		`"x": 1`, `"toolsListChanged": "yes"`, `"taskIds": 5`, `"promptsListChanged": {}`, `"x": 1e999`, `"x": 1, "x": 2`,
	} {
		_, err := h(t.Context(), request("subscriptions/listen", "", `{"notifications": {`+other+`, "resourceSubscriptions": ["x:secret"]}}`))
		requireCode(t, mcp.CodeInvalidParams, "there is no such resource", err, other)
		_, err = h(t.Context(), request("subscriptions/listen", "", `{"notifications": {`+other+`, "resourceSubscriptions": ["x:open"]}}`))
		require.NoError(t, err, other)
	}
	for _, other := range []string{`"uri": 5`, `"title": []`, `"x": 1, "x": 2`} {
		_, err := h(t.Context(), request("completion/complete", "", `{"argument": 7, "ref": {`+other+`, "type": "ref/prompt", "name": "secret"}}`))
		requireCode(t, mcp.CodeInvalidParams, `there is no prompt "secret"`, err, other)
		_, err = h(t.Context(), request("completion/complete", "", `{"argument": 7, "ref": {`+other+`, "type": "ref/prompt", "name": "open"}}`))
		require.NoError(t, err, other)
	}
}

// Params are refused if the policies cannot be asked about what another server may read in them.
func TestParamsThatCannotBeReadAreRefused(t *testing.T) {
	h := middleware.Authorize(nil, noSecrets)(answering("served"))
	for method, all := range map[string]map[string]string{
		"subscriptions/listen": {
			`[]`:                              "params must be an object",
			`{"notifications": ["x:secret"]}`: "params.notifications must be an object",
			`{"notifications": {"resourceSubscriptions": "x:secret"}}`:                                        "params.notifications.resourceSubscriptions must be an array of strings",
			`{"notifications": {"resourceSubscriptions": ["x:open", 1, "x:secret"]}}`:                         "params.notifications.resourceSubscriptions must be an array of strings",
			`{"notifications": {"resourceSubscriptions": ["x:\ud800"]}}`:                                      "params.notifications.resourceSubscriptions must be an array of strings",
			`{"notifications": {}, "notifications": {"resourceSubscriptions": ["x:secret"]}}`:                 `params must have one member "notifications", in these letters`,
			`{"notifications": {}, "Notifications": {"resourceSubscriptions": ["x:secret"]}}`:                 `params must have one member "notifications", in these letters`,
			`{"notificationſ": {"resourceSubscriptions": ["x:secret"]}}`:                                      `params must have one member "notifications", in these letters`,
			`{"notifications": {"ResourceSubscriptions": ["x:secret"]}}`:                                      `params.notifications must have one member "resourceSubscriptions", in these letters`,
			`{"notifications": {"resourceSubscriptions": ["x:open"], "resourceSubscriptions": ["x:secret"]}}`: `params.notifications must have one member "resourceSubscriptions", in these letters`,
			`{"notifications": {"resourceSubscriptions": ["x:secret"]}`:                                       "params must be an object",
		},
		"completion/complete": {
			`{}`:                                     "params.ref must be an object",
			`{"ref": 1}`:                             "params.ref must be an object",
			`{"ref": {"type": 5, "name": "secret"}}`: "params.ref.type must be a string",
			`{"ref": {"name": "secret"}}`:            "params.ref.type must be a string",
			`{"ref": {"type": "ref/other", "name": "secret"}}`:                           `params.ref.type must be "ref/prompt" or "ref/resource"`,
			`{"ref": {"type": "ref/prompt", "name": ["secret"]}}`:                        "params.ref.name must be a string",
			`{"ref": {"type": "ref/resource", "uri": ["x:secret"]}}`:                     "params.ref.uri must be a string",
			`{"ref": {"type": "ref/prompt", "name": "open", "name": "secret"}}`:          `params.ref must have one member "name", in these letters`,
			`{"ref": {"type": "ref/prompt", "name": "open", "n\u0061me": "secret"}}`:     `params.ref must have one member "name", in these letters`,
			`{"ref": {"type": "ref/prompt", "name": "open", "NAME": "secret"}}`:          `params.ref must have one member "name", in these letters`,
			`{"ref": {"type": "ref/resource", "Type": "ref/prompt", "name": "secret"}}`:  `params.ref must have one member "type", in these letters`,
			`{"ref": {"type": "ref/resource"}, "Ref": {"type": "ref/prompt"}}`:           `params must have one member "ref", in these letters`,
			`{"ref": {"type": "ref/prompt", "name": "open"}, "ref": {"name": "secret"}}`: `params must have one member "ref", in these letters`,
		},
		"tools/call": {
			`[]`: "params must be an object",
			`{"arguments": {"amount": 1}, "arguments": {"amount": 2}}`: `params must have one member "arguments", in these letters`,
			`{"arguments": {"amount": 1}, "Arguments": {"amount": 2}}`: `params must have one member "arguments", in these letters`,
		},
		"prompts/get": {`{"ARGUMENTS": {"amount": 2}}`: `params must have one member "arguments", in these letters`},
	} {
		for params, want := range all {
			_, err := h(t.Context(), request(method, "open", params))
			requireCode(t, mcp.CodeInvalidParams, want, err, method+" "+params)
		}
	}
}

// requireCode requires an error for the caller with a code and a text.
func requireCode(t *testing.T, code mcp.Code, text string, err error, params string) {
	t.Helper()
	rpc, ok := errors.AsType[*mcp.Error](err)
	require.True(t, ok, "%s: %v", params, err)
	require.Equal(t, code, rpc.Code, params)
	require.Equal(t, text, rpc.Message, params)
	require.True(t, mcp.IsCallerFault(err), params)
}
