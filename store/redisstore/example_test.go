package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// Two replicas claim the same value, and one of them gets it.
func ExampleOpen() {
	server, err := miniredis.Run() // instead of a Redis server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for range 2 {
		replica, err := redisstore.Open("redis://" + server.Addr() + "/0?prefix=orders:")
		if err != nil {
			panic(err)
		}
		defer replica.Close()
		fmt.Println(replica.Claim(context.Background(), "ticket", nil, time.Minute))
	}
	// Output:
	// true <nil>
	// false <nil>
}
