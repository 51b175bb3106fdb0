package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A tool is tested through the protocol, in memory.
func TestForecast(t *testing.T) {
	var messages []string
	client := servertest.Connect(t, newServer(),
		servertest.OnProgress(func(p servertest.Progress) { messages = append(messages, p.Message) }))

	result, err := client.CallTool(t.Context(), "forecast", forecastIn{City: "Bern"})
	require.NoError(t, err)
	var out forecastOut
	require.NoError(t, result.Into(&out))
	require.Equal(t, forecastOut{Sky: "clear", High: 19}, out)
	require.Equal(t, []string{"asking the model"}, messages)

	result, err = client.CallTool(t.Context(), "forecast", forecastIn{})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Equal(t, "name a city", result.Text())
}
