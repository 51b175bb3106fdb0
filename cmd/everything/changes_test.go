package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// Each trigger changes something on every call. Subscribers are notified of that and of nothing
// else, and the names in the lists stay the same.
func TestEachTriggerChangesOneThing(t *testing.T) {
	client, ctx := servertest.Connect(t, plainServer()), t.Context()
	names := func() (list []string, descriptions string) {
		tools, err := client.ListTools(ctx)
		require.NoError(t, err)
		for _, tool := range tools {
			list, descriptions = append(list, tool.Name), descriptions+tool.Description
		}
		prompts, err := client.ListPrompts(ctx)
		require.NoError(t, err)
		for _, p := range prompts {
			list, descriptions = append(list, p.Name), descriptions+p.Description
		}
		return list, descriptions
	}
	filters := map[string]mcp.SubscriptionFilter{
		mcp.NotificationToolsListChanged:   {ToolsListChanged: true},
		mcp.NotificationPromptsListChanged: {PromptsListChanged: true},
		mcp.NotificationResourcesUpdated:   {ResourceSubscriptions: []string{watchedURI}},
	}
	for trigger, told := range map[string]string{
		"test_trigger_tool_change":     mcp.NotificationToolsListChanged,
		"test_trigger_prompt_change":   mcp.NotificationPromptsListChanged,
		"test_trigger_resource_update": mcp.NotificationResourcesUpdated,
	} {
		s, err := client.Listen(ctx, filters[told])
		require.NoError(t, err)
		require.Equal(t, filters[told], s.Filter())
		others := map[string]*servertest.Subscription{}
		for method, filter := range filters {
			if method != told {
				others[method], err = client.Listen(ctx, filter)
				require.NoError(t, err)
			}
		}
		for range 3 {
			before, old := names()
			result, err := client.CallTool(ctx, trigger, nil)
			require.NoError(t, err)
			require.Contains(t, result.Text(), "version")
			change, err := s.Next(ctx)
			require.NoError(t, err)
			require.Equal(t, told, change.Method)
			after, now := names()
			require.Equal(t, before, after)
			require.Equal(t, told == mcp.NotificationResourcesUpdated, old == now)
		}
		require.NoError(t, s.Close())
		for method, other := range others {
			for _, trigger := range []string{"test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_update"} {
				_, err := client.CallTool(ctx, trigger, nil)
				require.NoError(t, err)
			}
			change, err := other.Next(ctx)
			require.NoError(t, err)
			require.Equal(t, method, change.Method, "the first that it is told of")
			require.NoError(t, other.Close())
		}
	}
	result, err := client.CallTool(ctx, changingTool, nil)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(result.Text(), "version "))
}
