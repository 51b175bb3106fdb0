package servertest

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// ReadResource reads a resource. A failure is an error, and an [*mcp.Error] if the
// server says so: for a URI behind which there is nothing its code depends on the
// protocol revision, and its data names the URI.
func (c *Client) ReadResource(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	return get[mcp.ReadResourceResult](ctx, c, mcp.MethodResourcesRead, mcp.ResourceParams{URI: uri})
}
