package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// refusals are how the answers of a server begin that does not do an operation, and does others: it is full, cannot save,
// copies another one, has too few copies, or the user lacks a right. One that is loading, or waits for others, comes back
// by itself: that is an outage. The last one is that of a command in a script.
var refusals = []string{"OOM ", "MISCONF ", "READONLY ", "NOREPLICAS ", "NOPERM ", "The user executing the script can't run this command"}

// fault returns the error of an operation.
func fault(operation string, err error) error {
	for _, refusal := range refusals {
		if redis.HasErrorPrefix(err, refusal) {
			return fmt.Errorf("redisstore: %s: %w: %w", operation, store.ErrRefused, err)
		}
	}
	return fmt.Errorf("redisstore: %s: %w", operation, err)
}
