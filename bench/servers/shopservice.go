package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ShopService is the name of the kind that is the HTTP service of all shops. Its URL is that of
// the endpoint [Modern].
const ShopService = "shop-service"

const (
	shopProducts   = 10_000
	shopCategories = 10
)

// A catalogue has the products of the shop, in memory.
type catalogue struct {
	products   []product
	byCategory map[string][]product
}

// newShopService makes the service. It also fills Redis.
func newShopService(int) (Server, error) {
	c := &catalogue{byCategory: map[string][]product{}}
	for i := range shopProducts {
		p := product{ID: i, Name: fmt.Sprintf("A thing with the number %d", i), Price: float64(1 + i%500)}
		category := ShopCategory(i)
		c.products, c.byCategory[category] = append(c.products, p), append(c.byCategory[category], p)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Modern+"/products", c.search)
	mux.HandleFunc("GET "+Modern+"/products/{id}", c.get)
	mux.HandleFunc("POST "+Modern+"/total", c.total)
	shop := newShop()
	return Server{Modern: mux, Legacy: http.NotFoundHandler()}, errors.Join(fill(shop.redis), shop.close())
}

// ShopCategory returns the category of a product.
func ShopCategory(product int) string { return fmt.Sprintf("category-%d", product%shopCategories) }

// fill stores a cart and a history for each user.
func fill(r *redis.Client) error {
	ctx := context.Background()
	_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range ShopUsers {
			user := ShopUser(i)
			p.HSet(ctx, "cart:"+user, "items", fmt.Sprintf(`[{"product":%d,"quantity":2},{"product":7,"quantity":1}]`, i), "currency", "EUR")
			for order := range 5 {
				p.RPush(ctx, "history:"+user, fmt.Sprintf(`[{"product":%d,"quantity":1}]`, order))
			}
			p.ZIncrBy(ctx, "popular", float64(i), strconv.Itoa(10*i))
		}
		return nil
	})
	return err
}

// noMaintenance lets go-redis not ask the server for notifications that it does not have.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func (c *catalogue) search(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	highest, err := strconv.ParseFloat(query.Get("max_price"), 64)
	limit, err2 := strconv.Atoi(query.Get("limit"))
	if err := errors.Join(err, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found := make([]product, 0, limit)
	for _, p := range c.byCategory[query.Get("category")] {
		if len(found) == limit {
			break
		}
		if p.Price <= highest {
			found = append(found, p)
		}
	}
	_ = json.NewEncoder(w).Encode(found) // an error means that the shop is gone
}

func (c *catalogue) get(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 || id >= len(c.products) {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(c.products[id]) // an error means that the shop is gone
}

func (c *catalogue) total(w http.ResponseWriter, r *http.Request) {
	var order checkoutInput
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var sum checkoutOutput
	for _, item := range order.Items {
		if item.Product < 0 || item.Product >= len(c.products) {
			http.NotFound(w, r)
			return
		}
		sum.Total += float64(item.Quantity) * c.products[item.Product].Price
	}
	_ = json.NewEncoder(w).Encode(sum) // an error means that the shop is gone
}
