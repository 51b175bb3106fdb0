//go:build !race

package middleware_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A subscription to more resources than one request may have is refused without an operation for each of them.
func TestTooManyResourcesAllocations(t *testing.T) {
	const params, budget = 4 << 20, 1 << 20 // bytes
	h := middleware.Authorize(nil, noSecrets)(answering("served"))
	req := request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": [`+strings.Repeat(`"",`, params/3)+`""]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := h(t.Context(), req)
	runtime.ReadMemStats(&after)
	requireCode(t, mcp.CodeInvalidParams, "there are too many resources in one request", err, "")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(budget))
}
