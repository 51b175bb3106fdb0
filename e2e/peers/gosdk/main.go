// Command gosdk drives the client of github.com/modelcontextprotocol/go-sdk:
//
//	gosdk auto|<revision> http <url>
//	gosdk auto|<revision> oauth <url> [URL of the client's metadata]
//	gosdk auto|<revision> stdio <command> [argument]...
//
// It speaks the language of node/driver.mjs.
package main

//lint:file-ignore SA1019 tests also use what the latest revision deprecates

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/vitrine-mcp/vitrine/e2e/peers/driver"
)

func main() { driver.Run(connect) }

type peer struct {
	*driver.Driver
	client       *mcp.Client
	session      *mcp.ClientSession
	acknowledged chan struct{} // one for each subscription

	mu    sync.Mutex
	level string // of the log, which modern requests carry along
}

func connect(ctx context.Context, d *driver.Driver) (driver.Peer, error) {
	p := &peer{Driver: d, acknowledged: make(chan struct{}, 100)}
	p.client = mcp.NewClient(&mcp.Implementation{Name: "e2e-gosdk", Version: "1.2.3"}, &mcp.ClientOptions{
		CreateMessageHandler: p.sample,
		ElicitationHandler:   p.elicit,
		// Without these handlers a modern client does not listen. The middleware reports the
		// notifications.
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) {},
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {},
	})
	p.client.AddReceivingMiddleware(p.received)
	p.addRoots()
	var transport mcp.Transport
	var err error
	switch d.Transport {
	case "http":
		transport = &mcp.StreamableClientTransport{Endpoint: d.Target[0]}
	case "oauth":
		if transport, err = authorizing(d.Target); err != nil {
			return nil, err
		}
	default:
		transport = &mcp.CommandTransport{Command: d.Command()}
	}
	var options mcp.ClientSessionOptions
	if d.Mode != "auto" {
		options.ProtocolVersion = d.Mode
	}
	if p.session, err = p.client.Connect(ctx, transport, &options); err != nil {
		return nil, withCode(err)
	}
	return p, nil
}

// authorizing returns a transport that gets access tokens as the server demands. The target is the URL of
// the server, and that of the client's metadata if it does not register itself.
func authorizing(target []string) (mcp.Transport, error) {
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: driver.Redirect,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			callback, err := driver.Browse(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: callback.Get("code"), State: callback.Get("state"), Iss: callback.Get("iss")}, nil
		},
	}
	if len(target) > 1 {
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: target[1]}
	} else {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "e2e", RedirectURIs: []string{driver.Redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	return &mcp.StreamableClientTransport{Endpoint: target[0], OAuthHandler: handler}, err
}

func (p *peer) Version() string { return p.session.InitializeResult().ProtocolVersion }
func (p *peer) Session() string { return p.session.ID() }
func (p *peer) Close() error    { return p.session.Close() }
func (p *peer) modern() bool    { return p.Version() >= "2026-07-28" }

// received writes everything that the server sends without a request.
func (p *peer) received(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch params := req.GetParams().(type) {
		case *mcp.ProgressNotificationParams:
			p.Progress(int(params.ProgressToken.(float64)), params)
		case *mcp.SubscriptionsAcknowledgedParams:
			p.acknowledged <- struct{}{}
		default:
			// The handlers of questions report them: a modern question does not come this way.
			if strings.HasPrefix(method, "notifications/") {
				p.Notified(method, params)
			}
		}
		if method == "roots/list" {
			p.Asked(method, req.GetParams())
		}
		return next(ctx, method, req)
	}
}

func (p *peer) sample(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	p.Asked("sampling/createMessage", req.Params)
	return &mcp.CreateMessageResult{
		Role: "assistant", Content: &mcp.TextContent{Text: driver.Sampled}, Model: "test-model", StopReason: "endTurn",
	}, nil
}

func (p *peer) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	p.Asked("elicitation/create", req.Params)
	action, content, err := p.Elicited(ctx, req.Params.RequestedSchema)
	return &mcp.ElicitResult{Action: action, Content: content}, err
}

func (p *peer) addRoots() {
	for _, root := range p.Roots() {
		p.client.AddRoots(&mcp.Root{URI: root.URI, Name: root.Name})
	}
}

func (p *peer) Do(ctx context.Context, c driver.Command) (any, error) {
	result, err := p.do(ctx, c)
	return result, withCode(err)
}

func (p *peer) do(ctx context.Context, c driver.Command) (any, error) {
	none := map[string]any{}
	switch c.Op {
	case "list":
		return p.session.ListTools(ctx, nil)
	case "call":
		params := &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments, Meta: p.meta()}
		if c.Progress {
			params.SetProgressToken(c.ID)
		}
		return p.session.CallTool(ctx, params)
	case "prompts":
		return p.session.ListPrompts(ctx, nil)
	case "prompt":
		return p.session.GetPrompt(ctx, &mcp.GetPromptParams{
			Name: c.Name, Arguments: driver.Decode[map[string]string](c.Arguments), Meta: p.meta(),
		})
	case "resources":
		return p.session.ListResources(ctx, nil)
	case "templates":
		return p.session.ListResourceTemplates(ctx, nil)
	case "read":
		return p.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: c.URI, Meta: p.meta()})
	case "complete":
		return p.session.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: c.Ref.Type, Name: c.Ref.Name, URI: c.Ref.URI},
			Argument: mcp.CompleteParamsArgument{Name: c.Argument.Name, Value: c.Argument.Value},
			Context:  &mcp.CompleteContext{Arguments: c.Context},
		})
	case "level":
		if p.modern() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.level = c.Level
			return none, nil
		}
		return none, p.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(c.Level)})
	case "watch": // the lists; it has done so since it is connected
		if p.modern() {
			<-p.acknowledged
		}
		return none, nil
	case "subscribe":
		err := p.session.Subscribe(ctx, &mcp.SubscribeParams{URI: c.URI})
		if err == nil && p.modern() {
			<-p.acknowledged
		}
		return none, err
	case "unsubscribe":
		return none, p.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: c.URI})
	case "ping":
		return none, p.session.Ping(ctx, nil)
	case "roots":
		p.addRoots()
		return none, nil
	}
	return nil, fmt.Errorf("cannot %s", c.Op)
}

func (p *peer) meta() mcp.Meta {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level == "" {
		return nil
	}
	return mcp.Meta{mcp.MetaKeyLogLevel: p.level}
}

func withCode(err error) error {
	if wire := new(jsonrpc.Error); errors.As(err, &wire) {
		return &driver.RPCError{Code: int(wire.Code), Err: err}
	}
	return err
}
