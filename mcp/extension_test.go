package mcp_test

import (
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestCheckExtensionID(t *testing.T) {
	for id, ok := range map[string]bool{
		"com.example/thing":             true,
		"io.modelcontextprotocol/tasks": true,
		"acme/x":                        true, // one label is a prefix
		"com.ex-ample/a-b_c.d9":         true,
		"com.example/9":                 true,
		"":                              false,
		"thing":                         false, // the prefix is mandatory
		"/thing":                        false,
		"com.example/":                  false,
		"com..example/x":                false,
		"com.9example/x":                false,
		"com.-example/x":                false,
		"com.example-/x":                false,
		"com.exam_ple/x":                false,
		"com.example/-x":                false,
		"com.example/x.":                false,
		"com.example/x/y":               false,
		"com.example/x y":               false,
		"com.exämple/x":                 false,
		"com.example/" + strings.Repeat("x", 300): false,
	} {
		if err := mcp.CheckExtensionID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// All methods and notifications of the protocol are its own.
func TestOwnMethod(t *testing.T) {
	own := append(mcp.Methods(),
		mcp.MethodSamplingCreateMessage, mcp.MethodElicitationCreate, mcp.MethodRootsList,
		mcp.NotificationMessage, mcp.NotificationToolsListChanged, mcp.NotificationPromptsListChanged,
		mcp.NotificationResourcesListChanged, mcp.NotificationResourcesUpdated, mcp.NotificationSubscriptionsAcknowledged,
		mcp.NotificationTasks, "tasks/list", "tasks/else", "tools", "notifications/tasks/x", "notifications", "rpc.discover")
	for _, name := range own {
		if !mcp.OwnMethod(name) {
			t.Errorf("%q is the protocol's", name)
		}
	}
	for _, name := range []string{"com.example/thing", "skills/list", "example/tools/list", "notifications/com.example/thing", "toolshed/list", "pinger"} {
		if mcp.OwnMethod(name) {
			t.Errorf("%q is free", name)
		}
	}
}
