package servers

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The inputs of the tools of a shop, in which nil is what is missing or null.
type (
	checkedSearch struct {
		Category *string  `json:"category"`
		MaxPrice *float64 `json:"max_price"`
		Limit    *int     `json:"limit"`
	}
	checkedCart struct {
		User *string `json:"user"`
	}
	checkedCheckout struct {
		User  *string        `json:"user"`
		Items *[]checkedItem `json:"items"`
	}
	checkedItem struct {
		Product  *int `json:"product"`
		Quantity *int `json:"quantity"`
	}
)

func (in *checkedCheckout) whole() bool {
	if in.User == nil || in.Items == nil {
		return false
	}
	for _, i := range *in.Items {
		if i.Product == nil || i.Quantity == nil {
			return false
		}
	}
	return true
}

// newShopComplete makes the shop of a [complete] server.
func newShopComplete(int) (Server, error) {
	s := newShop()
	c, err := newComplete(map[string]completeTool{
		Search: func(ctx context.Context, arguments jsontext.Value) (result completeCallResult, err error) {
			in, err := checkedInput(arguments, func(in *checkedSearch) bool { return in.Category != nil && in.MaxPrice != nil && in.Limit != nil })
			if err != nil {
				return result, err
			}
			return structuredByHand(s.search(ctx, searchInput{*in.Category, *in.MaxPrice, *in.Limit}))
		},
		Cart: func(ctx context.Context, arguments jsontext.Value) (result completeCallResult, err error) {
			in, err := checkedInput(arguments, func(in *checkedCart) bool { return in.User != nil })
			if err != nil {
				return result, err
			}
			return structuredByHand(s.cart(ctx, cartInput{*in.User}))
		},
		Checkout: func(ctx context.Context, arguments jsontext.Value) (result completeCallResult, err error) {
			in, err := checkedInput(arguments, (*checkedCheckout).whole)
			if err != nil {
				return result, err
			}
			order := checkoutInput{User: *in.User}
			for _, i := range *in.Items {
				order.Items = append(order.Items, item{*i.Product, *i.Quantity})
			}
			return structuredByHand(s.checkout(ctx, order))
		},
	}, shopTools())
	return Server{Modern: c, Legacy: c, Close: s.close}, err
}

// structuredByHand makes the result of a call of what its tool has returned: structured content, and its text.
func structuredByHand[Out any](out Out, err error) (completeCallResult, error) {
	if err != nil {
		return completeCallResult{}, err
	}
	data, err := json.Marshal(out)
	return completeCallResult{Content: []floorContent{{"text", string(data)}}, StructuredContent: data}, err
}
