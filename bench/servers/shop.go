package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// The names of the tools of a shop.
const (
	Search   = "search_products" // GET of the service, and a sorted set of Redis
	Cart     = "view_cart"       // a hash and a list of Redis, and GET of the service
	Checkout = "checkout"        // POST to the service, and three writes to Redis
)

// The environment variables that tell a server where its backends are.
const (
	RedisEnv       = "BENCH_REDIS"        // host and port
	ShopServiceEnv = "BENCH_SHOP_SERVICE" // URL of the [ShopService]
)

// ShopUsers is the number of users that have a cart.
const ShopUsers = 100

// ShopUser returns the name of a user.
func ShopUser(i int) string { return fmt.Sprintf("user-%03d", i%ShopUsers) }

// A shop is what the tools of all servers do: an online shop whose products are known to an HTTP
// service, and whose carts are in Redis. Safe for concurrent use.
type shop struct {
	redis   *redis.Client
	service string
	client  *http.Client
}

func newShop() *shop {
	return &shop{
		redis:   redis.NewClient(&redis.Options{Addr: os.Getenv(RedisEnv), PoolSize: 64, MaintNotificationsConfig: noMaintenance()}),
		service: os.Getenv(ShopServiceEnv),
		client:  &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
}

func (s *shop) close() error {
	s.client.CloseIdleConnections()
	return s.redis.Close()
}

type searchInput struct {
	Category string  `json:"category"`
	MaxPrice float64 `json:"max_price"`
	Limit    int     `json:"limit"`
}

type product struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Price float64 `json:"price"`
	// Rank is the place among the most popular products; 0 if it is not among them.
	Rank int `json:"rank"`
}

type searchOutput struct {
	Category string    `json:"category"`
	Products []product `json:"products"`
	Popular  []int     `json:"popular"`
}

type cartInput struct {
	User string `json:"user"`
}

type item struct {
	Product  int `json:"product"`
	Quantity int `json:"quantity"`
}

type cartOutput struct {
	User    string   `json:"user"`
	Items   []item   `json:"items"`
	First   product  `json:"first"`
	History []string `json:"history"`
}

type checkoutInput struct {
	User  string `json:"user"`
	Items []item `json:"items"`
}

type checkoutOutput struct {
	User   string  `json:"user"`
	Total  float64 `json:"total"`
	Orders int64   `json:"orders"`
	Status string  `json:"status"`
}

// ask sends a request to the service and decodes its answer.
func (s *shop) ask(ctx context.Context, method, path string, body, into any) error {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.service+path, reader)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the service answers %s: status %d", path, resp.StatusCode)
	}
	return json.Unmarshal(data, into)
}

func (s *shop) search(ctx context.Context, in searchInput) (out searchOutput, err error) {
	var popular []string
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		popular, err = s.redis.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "popular", Start: 0, Stop: 9, Rev: true}).Result()
		return err
	})
	both.Go(func() error {
		query := url.Values{"category": {in.Category}, "max_price": {strconv.FormatFloat(in.MaxPrice, 'f', -1, 64)}, "limit": {strconv.Itoa(in.Limit)}}
		return s.ask(ctx, http.MethodGet, "/products?"+query.Encode(), nil, &out.Products)
	})
	if err := both.Wait(); err != nil {
		return out, err
	}
	out.Category, out.Popular = in.Category, make([]int, len(popular))
	rank := make(map[int]int, len(popular))
	for i, id := range popular {
		if out.Popular[i], err = strconv.Atoi(id); err != nil {
			return out, err
		}
		rank[out.Popular[i]] = i + 1
	}
	for i := range out.Products {
		out.Products[i].Rank = rank[out.Products[i].ID]
	}
	return out, nil
}

func (s *shop) cart(ctx context.Context, in cartInput) (out cartOutput, err error) {
	out.User = in.User
	stored, err := s.redis.HGetAll(ctx, "cart:"+in.User).Result()
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal([]byte(stored["items"]), &out.Items); err != nil || len(out.Items) == 0 {
		return out, fmt.Errorf("%s has no cart: %w", in.User, err)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return s.ask(ctx, http.MethodGet, "/products/"+strconv.Itoa(out.Items[0].Product), nil, &out.First)
	})
	both.Go(func() (err error) {
		out.History, err = s.redis.LRange(ctx, "history:"+in.User, 0, 4).Result()
		return err
	})
	return out, both.Wait()
}

func (s *shop) checkout(ctx context.Context, in checkoutInput) (out checkoutOutput, err error) {
	order, err := json.Marshal(in.Items)
	if err != nil {
		return out, err
	}
	var orders *redis.IntCmd
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.ask(ctx, http.MethodPost, "/total", in, &out) })
	both.Go(func() error {
		_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			orders = p.Incr(ctx, "orders:"+in.User)
			p.RPush(ctx, "history:"+in.User, order)
			for _, item := range in.Items {
				p.ZIncrBy(ctx, "popular", 1, strconv.Itoa(item.Product))
			}
			return nil
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return out, err
	}
	out.User, out.Orders, out.Status = in.User, orders.Val(), "confirmed"
	return out, nil
}
