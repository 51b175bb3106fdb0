// Command mcpgo drives the client of github.com/mark3labs/mcp-go:
//
//	mcpgo auto|<revision> http <url>
//	mcpgo auto|<revision> oauth <url> [URL of the client's metadata]
//	mcpgo auto|<revision> stdio <command> [argument]...
//
// It speaks the language of node/driver.mjs. mcp-go gets no access token by itself: with "oauth" the program
// does it when the client asks for it, and again at the command "authorize".
package main

//lint:file-ignore SA1019 tests also use what the latest revision deprecates

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/vitrine-mcp/vitrine/e2e/peers/driver"
)

func main() { driver.Run(connect) }

type peer struct {
	*driver.Driver
	*client.Client
	acknowledged chan struct{} // one for each subscription
	oauth        *transport.OAuthHandler

	mu    sync.Mutex
	lists bool   // the client asks for notifications of list changes
	stop  func() // ends the subscription
}

func connect(ctx context.Context, d *driver.Driver) (driver.Peer, error) {
	// It logs every end of a stream as an error, in the middle of the log of the server.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	p := &peer{Driver: d, acknowledged: make(chan struct{}, 100), stop: func() {}}
	var wire transport.Interface
	switch d.Transport {
	case "http", "oauth":
		var options []transport.StreamableHTTPCOption
		if d.Mode != "auto" {
			options = append(options, transport.WithContinuousListening()) // which it can do with old revisions only
		}
		if d.Transport == "oauth" {
			options = []transport.StreamableHTTPCOption{transport.WithHTTPOAuth(oauthConfig(d.Target))}
		}
		var err error
		if wire, err = transport.NewStreamableHTTP(d.Target[0], options...); err != nil {
			return nil, err
		}
	default:
		wire = transport.NewStdioWithOptions(d.Target[0], nil, d.Target[1:], transport.WithCommandFunc(
			func(context.Context, string, []string, []string) (*exec.Cmd, error) { return d.Command(), nil }))
	}
	options := []client.ClientOption{
		client.WithSamplingHandler(p), client.WithElicitationHandler(p), client.WithRootsHandler(p),
	}
	if d.Mode != "auto" {
		options = append(options, client.WithProtocolVersion(d.Mode))
	}
	p.Client = client.NewClient(wire, options...)
	p.OnNotification(p.notified)
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	initialize := mcp.InitializeRequest{Params: mcp.InitializeParams{
		ClientInfo: mcp.Implementation{Name: "e2e-mcpgo", Version: "1.2.3"},
	}}
	_, err := p.Initialize(ctx, initialize)
	if p.oauth = client.GetOAuthHandler(err); p.oauth != nil {
		if err = p.authorize(ctx); err == nil {
			_, err = p.Initialize(ctx, initialize)
		}
	}
	if err != nil {
		return nil, withCode(err)
	}
	return p, nil
}

// oauthConfig is the configuration of a client. mcp-go does not ask for the scopes of a challenge, so the
// program names them.
func oauthConfig(target []string) transport.OAuthConfig {
	config := transport.OAuthConfig{
		RedirectURI: driver.Redirect, Scopes: []string{"demo:read", "demo:write", "demo:admin"}, PKCEEnabled: true,
		TokenStore: transport.NewMemoryTokenStore(), TokenEndpointAuthMethod: "none",
	}
	if len(target) > 1 {
		config.ClientID = target[1]
	}
	return config
}

// authorize gets an access token.
func (p *peer) authorize(ctx context.Context) error {
	if p.oauth.GetClientID() == "" {
		if err := p.oauth.RegisterClient(ctx, "e2e"); err != nil {
			return err
		}
	}
	state, err := client.GenerateState()
	if err != nil {
		return err
	}
	verifier, err := client.GenerateCodeVerifier()
	if err != nil {
		return err
	}
	address, err := p.oauth.GetAuthorizationURL(ctx, state, client.GenerateCodeChallenge(verifier))
	if err != nil {
		return err
	}
	callback, err := driver.Browse(ctx, address)
	if err != nil {
		return err
	}
	return p.oauth.ProcessAuthorizationResponse(ctx, callback.Get("code"), callback.Get("state"), verifier)
}

func (p *peer) Version() string { return p.ProtocolVersion() }
func (p *peer) Session() string { return p.GetSessionId() }
func (p *peer) modern() bool    { return mcp.IsModernProtocol(p.Version()) }

func (p *peer) Close() error {
	p.stop()
	return p.Client.Close()
}

func (p *peer) notified(n mcp.JSONRPCNotification) {
	switch n.Method {
	case "notifications/progress":
		p.Progress(int(n.Params.AdditionalFields["progressToken"].(float64)), n.Params)
	case "notifications/subscriptions/acknowledged":
		p.acknowledged <- struct{}{}
	default:
		p.Notified(n.Method, n.Params)
	}
}

// CreateMessage implements client.SamplingHandler.
func (p *peer) CreateMessage(_ context.Context, req mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	p.Asked("sampling/createMessage", req.CreateMessageParams)
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(driver.Sampled)},
		Model:           "test-model", StopReason: "endTurn",
	}, nil
}

// Elicit implements client.ElicitationHandler.
func (p *peer) Elicit(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.Asked("elicitation/create", req.Params)
	action, content, err := p.Elicited(ctx, req.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitationResult{}
	result.Action = mcp.ElicitationResponseAction(action)
	if content != nil { // nil in an interface would become null
		result.Content = content
	}
	return result, nil
}

// ListRoots implements client.RootsHandler.
func (p *peer) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	p.Asked("roots/list", nil)
	result := new(mcp.ListRootsResult)
	for _, root := range p.Roots() {
		result.Roots = append(result.Roots, mcp.Root{URI: root.URI, Name: root.Name})
	}
	return result, nil
}

func (p *peer) Do(ctx context.Context, c driver.Command) (any, error) {
	result, err := p.do(ctx, c)
	return result, withCode(err)
}

func (p *peer) do(ctx context.Context, c driver.Command) (any, error) {
	none := map[string]any{}
	switch c.Op {
	case "list":
		return p.ListTools(ctx, mcp.ListToolsRequest{})
	case "call":
		params := mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments}
		if c.Progress {
			params.Meta = &mcp.Meta{ProgressToken: c.ID}
		}
		return p.CallTool(ctx, mcp.CallToolRequest{Params: params})
	case "prompts":
		return p.ListPrompts(ctx, mcp.ListPromptsRequest{})
	case "prompt":
		return p.GetPrompt(ctx, mcp.GetPromptRequest{Params: mcp.GetPromptParams{
			Name: c.Name, Arguments: driver.Decode[map[string]string](c.Arguments),
		}})
	case "resources":
		return p.ListResources(ctx, mcp.ListResourcesRequest{})
	case "templates":
		return p.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	case "read":
		return p.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: c.URI}})
	case "complete":
		return p.Complete(ctx, mcp.CompleteRequest{Params: mcp.CompleteParams{
			Ref: c.Ref, Argument: mcp.CompleteArgument{Name: c.Argument.Name, Value: c.Argument.Value},
			Context: mcp.CompleteContext{Arguments: c.Context},
		}})
	case "level":
		return none, p.SetLevel(ctx, mcp.SetLevelRequest{Params: mcp.SetLevelParams{Level: mcp.LoggingLevel(c.Level)}})
	case "watch":
		return none, p.listenAfter(func() error {
			p.lists = true
			return nil
		})
	case "subscribe":
		return none, p.listenAfter(func() error {
			return p.Subscribe(ctx, mcp.SubscribeRequest{Params: mcp.SubscribeParams{URI: c.URI}})
		})
	case "unsubscribe":
		return none, p.listenAfter(func() error {
			return p.Unsubscribe(ctx, mcp.UnsubscribeRequest{Params: mcp.UnsubscribeParams{URI: c.URI}})
		})
	case "ping":
		return none, p.Ping(ctx)
	case "authorize":
		return none, p.authorize(ctx)
	case "roots":
		if p.modern() {
			return none, nil
		}
		return none, p.RootListChanges(ctx)
	}
	return nil, fmt.Errorf("cannot %s", c.Op)
}

// listenAfter changes what the client listens to, and listens to that.
func (p *peer) listenAfter(change func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	return p.listen()
}

// listen replaces the one subscription of a modern client.
func (p *peer) listen() error {
	if !p.modern() {
		return nil
	}
	p.stop()
	filter := p.PendingSubscriptionFilter()
	filter.ToolsListChanged, filter.PromptsListChanged, filter.ResourcesListChanged = p.lists, p.lists, p.lists
	stop, err := p.ListenAsync(context.Background(), filter, nil)
	if err != nil {
		return err
	}
	p.stop = stop
	<-p.acknowledged
	return nil
}

// codes has the codes of the errors for which the library has a value. It does not keep other codes.
var codes = map[error]int{
	mcp.ErrParseError: mcp.PARSE_ERROR, mcp.ErrInvalidRequest: mcp.INVALID_REQUEST, mcp.ErrMethodNotFound: mcp.METHOD_NOT_FOUND,
	mcp.ErrInvalidParams: mcp.INVALID_PARAMS, mcp.ErrInternalError: mcp.INTERNAL_ERROR,
	mcp.ErrResourceNotFound: mcp.RESOURCE_NOT_FOUND, mcp.ErrRequestInterrupted: mcp.REQUEST_INTERRUPTED,
}

func withCode(err error) error {
	for known, code := range codes {
		if errors.Is(err, known) {
			return &driver.RPCError{Code: code, Err: err}
		}
	}
	return err
}
