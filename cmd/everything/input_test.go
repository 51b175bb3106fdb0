package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// suiteClient declares what the suite's client does, and answers as that does.
func suiteClient(t *testing.T, contents map[string]string, asked *[]string, opts ...servertest.Option) *servertest.Client {
	var mu sync.Mutex
	return servertest.Connect(t, plainServer(), append([]servertest.Option{
		servertest.Capabilities(mcp.ClientCapabilities{
			Roots: &mcp.RootsCapability{}, Sampling: &mcp.SamplingCapability{}, Elicitation: &mcp.ElicitationCapability{},
		}),
		servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			*asked = append(*asked, q.Method)
			switch q.Method {
			case mcp.MethodSamplingCreateMessage:
				return jsontext.Value(`{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"test-model","stopReason":"endTurn"}`), nil
			case mcp.MethodRootsList:
				return jsontext.Value(`{"roots":[{"uri":"file:///test/root","name":"Test Root"}]}`), nil
			}
			var p mcp.ElicitParams
			require.NoError(t, json.Unmarshal(q.Params, &p))
			return jsontext.Value(`{"action":"accept","content":` + contents[p.Message] + `}`), nil
		}),
	}, opts...)...)
}

// The fixtures that ask the client, answered as the suite answers them, in both eras.
func TestInputFixtures(t *testing.T) {
	const name, elicit, sample, roots = "What is your name?", mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList
	contents := map[string]string{
		name: `{"name":"Alice"}`, "Please confirm": `{"ok":true}`,
		"Step 1: what is your name?": `{"name":"Alice"}`, "Step 2: what is your favourite color?": `{"color":"blue"}`,
		"Please provide your information": `{"username":"testuser","email":"test@example.com"}`,
		"Please check what is filled in":  `{"name":"Jane Smith","age":25,"score":88,"status":"inactive","verified":false}`,
		"Please choose":                   `{"untitledSingle":"option1","titledSingle":"value1","legacyEnum":"opt1","untitledMulti":["option1","option2"],"titledMulti":["value1","value2"]}`,
		"What is it about?":               `{"context":"test context"}`,
	}
	for _, era := range [][]servertest.Option{nil, {servertest.Legacy(mcp.Version20251125)}} {
		for _, tt := range []struct {
			tool, arguments, want string
			asked                 []string
		}{
			{"test_input_required_result_elicitation", `{}`, "Hello, Alice!", []string{elicit}},
			{"test_input_required_result_sampling", `{}`, "LLM response: Paris", []string{sample}},
			{"test_input_required_result_list_roots", `{}`, "1 roots: file:///test/root", []string{roots}},
			{"test_input_required_result_request_state", `{}`, "state-ok: accept, ok: true", []string{elicit}},
			{"test_input_required_result_multiple_inputs", `{}`, "Hello, Alice! Paris 1 roots: file:///test/root", []string{elicit, roots, sample}},
			{"test_input_required_result_multi_round", `{}`, "Alice likes blue", []string{elicit, elicit}},
			{"test_input_required_result_tampered_state", `{}`, "accept, ok: true", []string{elicit}},
			{"test_input_required_result_capabilities", `{}`, "LLM response: Paris", []string{sample}},
			{"test_missing_capability", `{}`, "LLM response: Paris", []string{sample}},
			{"test_streaming_elicitation", `{}`, "Hello, Alice!", []string{elicit}},
			{"test_sampling", `{"prompt":"Test prompt for sampling"}`, "LLM response: Paris", []string{sample}},
			{"test_elicitation", `{"message":"Please provide your information"}`, "User response: action=accept, username=testuser, email=test@example.com", []string{elicit}},
			{"test_elicitation_sep1034_defaults", `{}`, "Elicitation completed: action=accept, content={Name:Jane Smith Age:25 Score:88 Status:inactive Verified:false}", []string{elicit}},
			{"test_elicitation_sep1330_enums", `{}`, "Elicitation completed: action=accept, content=" + contents["Please choose"], []string{elicit}},
		} {
			var asked []string
			client := suiteClient(t, contents, &asked, era...)
			got, err := client.CallTool(t.Context(), tt.tool, jsontext.Value(tt.arguments))
			require.NoError(t, err, tt.tool)
			assert.Equal(t, tt.want, got.Text(), tt.tool)
			assert.False(t, got.IsError, tt.tool)
			slices.Sort(asked)
			assert.Equal(t, tt.asked, asked, tt.tool)
		}
		var asked []string
		prompt, err := suiteClient(t, contents, &asked, era...).GetPrompt(t.Context(), "test_input_required_result_prompt", nil)
		require.NoError(t, err)
		assert.Equal(t, "Use this context: test context", prompt.Messages[0].Content.(*mcp.TextContent).Text)
	}
}

// The forms are those that the suite expects.
func TestFormsOfTheSuite(t *testing.T) {
	for tool, want := range map[string]string{
		"test_input_required_result_elicitation": `{"name":{"type":"string","description":"your name"}}`,
		"test_elicitation":                       `{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}}`,
		"test_elicitation_sep1034_defaults": `{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","default":true}}`,
	} {
		client := servertest.Connect(t, plainServer(), servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}))
		raw, err := client.Call(t.Context(), mcp.MethodToolsCall, mcp.CallToolParams{Name: tool, Arguments: jsontext.Value(argumentsOf(tool))})
		require.NoError(t, err, tool)
		var result struct {
			InputRequests map[string]struct {
				Params struct {
					RequestedSchema struct{ Properties json.RawMessage }
				}
			}
		}
		require.NoError(t, json.Unmarshal(raw, &result))
		require.Len(t, result.InputRequests, 1)
		for _, q := range result.InputRequests {
			assert.JSONEq(t, want, string(q.Params.RequestedSchema.Properties), tool)
		}
	}
}

func argumentsOf(tool string) string {
	if tool == "test_elicitation" {
		return `{"message":"m"}`
	}
	return `{}`
}

// What the suite checks about capabilities.
func TestCapabilityFixtures(t *testing.T) {
	_, err := servertest.Connect(t, plainServer()).CallTool(t.Context(), "test_missing_capability", nil)
	rpc, ok := mcp.AsError(err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mcp.CodeMissingRequiredCapability, rpc.Code)
	assert.Equal(t, map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}, rpc.Data)

	for want, caps := range map[string]mcp.ClientCapabilities{
		mcp.MethodSamplingCreateMessage: {Sampling: &mcp.SamplingCapability{}},
		mcp.MethodElicitationCreate:     {Elicitation: &mcp.ElicitationCapability{}},
	} {
		raw, err := servertest.Connect(t, plainServer(), servertest.Capabilities(caps)).
			Call(t.Context(), mcp.MethodToolsCall, mcp.CallToolParams{Name: "test_input_required_result_capabilities"})
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(raw), `"method"`))
		assert.Contains(t, string(raw), want)
	}
}

func TestLoggingFixtures(t *testing.T) {
	for _, tool := range []string{"test_logging_tool", "test_tool_with_logging"} {
		var messages []string
		collect := servertest.OnNotification(func(method string, params jsontext.Value) {
			var m mcp.LoggingMessageParams
			assert.NoError(t, json.Unmarshal(params, &m))
			messages = append(messages, method+" "+string(m.Level)+" "+m.Data.(string))
		})
		_, err := servertest.Connect(t, plainServer(), collect, servertest.Legacy(mcp.Version20251125)).CallTool(t.Context(), tool, nil)
		require.NoError(t, err)
		assert.Equal(t, []string{
			"notifications/message info Tool execution started", "notifications/message info Tool processing data",
			"notifications/message info Tool execution completed",
		}, messages)
		messages = nil
		_, err = servertest.Connect(t, plainServer(), collect).CallTool(t.Context(), tool, nil)
		require.NoError(t, err)
		assert.Empty(t, messages, "a modern client has to ask for them")
	}
}
