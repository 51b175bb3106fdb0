package servers

import (
	"context"
	"errors"
	"net/http"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

// The names of the kinds of shops with which the report compares the others.
const (
	ShopByHand   = "shop-by-hand"
	ShopComplete = "shop-complete" // by hand, with all promises of Vitrine
	ShopMCPGo    = "shop-mcpgo"
	ShopVitrine  = "shop-vitrine-service" // as the README's server: package service runs it
)

// Shops returns the servers with the tools of a shop, each written as its documentation says. All
// answer with structured content and its text.
func Shops() []Kind {
	const vitrine, mcpgo, gosdk = "github.com/vitrine-mcp/vitrine", "github.com/mark3labs/mcp-go", "github.com/modelcontextprotocol/go-sdk"
	return []Kind{
		{Name: ShopByHand, Title: "by hand: net/http + encoding/json, keeps no sessions", New: newShopByHand},
		{Name: ShopComplete, Title: "by hand, with all promises", New: newShopComplete},
		{Name: "shop-vitrine", Title: "Vitrine, traces unsampled", Module: vitrine, Env: unsampled, New: newShopVitrine},
		{Name: "shop-vitrine-default", Title: "Vitrine, default", Module: vitrine, New: newShopVitrine},
		{Name: ShopVitrine, Title: "Vitrine, default, run by package service", Module: vitrine, New: newServedShop},
		{Name: ShopMCPGo, Title: "mcp-go", Module: mcpgo, New: func(int) (Server, error) { return newShopMCPGo() }},
		{Name: "shop-mcpgo-validating", Title: "mcp-go with validation", Module: mcpgo, New: func(int) (Server, error) {
			return newShopMCPGo(mcpgoserver.WithInputSchemaValidation(), mcpgoserver.WithOutputSchemaValidation())
		}},
		{Name: "shop-gosdk", Title: "Go SDK", Module: gosdk, New: newShopGoSDK},
	}
}

func shopKinds() []Kind {
	return append(Shops(), Kind{Name: ShopService, Title: "the HTTP service of the shops", New: newShopService})
}

const (
	searchDescription   = "Searches the products of a category up to a price, and tells which are popular."
	cartDescription     = "Shows the cart of a user and the last orders."
	checkoutDescription = "Buys what is in a cart."
)

func newShopVitrine(int) (Server, error) {
	srv, shop, err := vitrineShop()
	if err != nil {
		return Server{}, err
	}
	if err := otlp.Start(context.Background(), srv.Telemetry()); err != nil {
		return Server{}, errors.Join(err, shop.close())
	}
	h := srv.Handler()
	return Server{Modern: h, Legacy: h, Close: func() error { return errors.Join(srv.Shutdown(context.Background()), shop.close()) }}, nil
}

// newServedShop makes a shop that package service runs.
func newServedShop(int) (Server, error) {
	srv, shop, err := vitrineShop()
	if err != nil {
		return Server{}, err
	}
	s := served(srv, Legacy)
	s.Close = shop.close
	return s, nil
}

func vitrineShop() (*server.Server, *shop, error) {
	srv, err := server.TryNew("shop", "1")
	if err != nil {
		return nil, nil, err
	}
	shop := newShop()
	server.AddTool(srv, server.Tool{Name: Search, Description: searchDescription},
		func(ctx context.Context, _ *server.Call, in searchInput) (searchOutput, error) {
			return shop.search(ctx, in)
		})
	server.AddTool(srv, server.Tool{Name: Cart, Description: cartDescription},
		func(ctx context.Context, _ *server.Call, in cartInput) (cartOutput, error) { return shop.cart(ctx, in) })
	server.AddTool(srv, server.Tool{Name: Checkout, Description: checkoutDescription},
		func(ctx context.Context, _ *server.Call, in checkoutInput) (checkoutOutput, error) {
			return shop.checkout(ctx, in)
		})
	return srv, shop, nil
}

// structured makes a handler of a function whose result is structured, and has a text.
func structured[In, Out any](do func(context.Context, In) (Out, error)) mcpgoserver.ToolHandlerFunc {
	return mcpgo.NewStructuredToolHandler(func(ctx context.Context, _ mcpgo.CallToolRequest, in In) (Out, error) { return do(ctx, in) })
}

func newShopMCPGo(opts ...mcpgoserver.ServerOption) (Server, error) {
	shop := newShop()
	srv := mcpgoserver.NewMCPServer("shop", "1", append(opts, mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithRecovery())...)
	srv.AddTool(mcpgo.NewTool(Search, mcpgo.WithDescription(searchDescription), mcpgo.WithInputSchema[searchInput](), mcpgo.WithOutputSchema[searchOutput]()), structured(shop.search))
	srv.AddTool(mcpgo.NewTool(Cart, mcpgo.WithDescription(cartDescription), mcpgo.WithInputSchema[cartInput](), mcpgo.WithOutputSchema[cartOutput]()), structured(shop.cart))
	srv.AddTool(mcpgo.NewTool(Checkout, mcpgo.WithDescription(checkoutDescription), mcpgo.WithInputSchema[checkoutInput](), mcpgo.WithOutputSchema[checkoutOutput]()), structured(shop.checkout))
	h := mcpgoserver.NewStreamableHTTPServer(srv, mcpgoserver.WithStateful(true))
	return Server{Modern: h, Legacy: h, Close: shop.close}, nil
}

func newShopGoSDK(int) (Server, error) {
	shop := newShop()
	srv := gosdk.NewServer(&gosdk.Implementation{Name: "shop", Version: "1"}, nil)
	gosdk.AddTool(srv, &gosdk.Tool{Name: Search, Description: searchDescription},
		func(ctx context.Context, _ *gosdk.CallToolRequest, in searchInput) (*gosdk.CallToolResult, searchOutput, error) {
			out, err := shop.search(ctx, in)
			return nil, out, err
		})
	gosdk.AddTool(srv, &gosdk.Tool{Name: Cart, Description: cartDescription},
		func(ctx context.Context, _ *gosdk.CallToolRequest, in cartInput) (*gosdk.CallToolResult, cartOutput, error) {
			out, err := shop.cart(ctx, in)
			return nil, out, err
		})
	gosdk.AddTool(srv, &gosdk.Tool{Name: Checkout, Description: checkoutDescription},
		func(ctx context.Context, _ *gosdk.CallToolRequest, in checkoutInput) (*gosdk.CallToolResult, checkoutOutput, error) {
			out, err := shop.checkout(ctx, in)
			return nil, out, err
		})
	h := gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return srv }, &gosdk.StreamableHTTPOptions{JSONResponse: true})
	return Server{Modern: h, Legacy: h, Close: func() error {
		for session := range srv.Sessions() {
			_ = session.Close() // the process ends
		}
		return shop.close()
	}}, nil
}
