package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// headers are HTTP headers from the command line.
type headers http.Header

func (h *headers) String() string { return "" }

// Set implements [flag.Value].
func (h *headers) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("%q is no header: there is no colon", text)
	}
	if *h == nil {
		*h = headers{}
	}
	http.Header(*h).Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}

const (
	// protocolVersion is the revision of the requests. It needs no session.
	protocolVersion = "2026-07-28"
	maxAnswer       = 16 << 20
	maxPages        = 1000
)

// listTools returns the names of a server's tools.
func listTools(ctx context.Context, url string, header headers) (names []string, err error) {
	cursor := ""
	for range maxPages {
		var page struct {
			Result *struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
			Error *struct{ Message string }
		}
		if err := askTools(ctx, url, header, cursor, &page); err != nil {
			return nil, fmt.Errorf("tools/list: %w", err)
		}
		if page.Error != nil {
			return nil, fmt.Errorf("tools/list: %s", page.Error.Message)
		}
		if page.Result == nil {
			return nil, fmt.Errorf("tools/list: %s does not answer as an MCP server", url)
		}
		for _, tool := range page.Result.Tools {
			names = append(names, tool.Name)
		}
		if cursor = page.Result.NextCursor; cursor == "" {
			return names, nil
		}
	}
	return nil, fmt.Errorf("tools/list: more than %d pages", maxPages)
}

// askTools requests one page.
func askTools(ctx context.Context, url string, header headers, cursor string, page any) error {
	params := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    protocolVersion,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "vitrine-dashboards", "version": "1"},
	}}
	if cursor != "" {
		params["cursor"] = cursor
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", protocolVersion)
	req.Header.Set("Mcp-Method", "tools/list")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, page); err != nil {
		return fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	return nil
}
