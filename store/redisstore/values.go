package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis has no other digest; it tells revisions of a value apart
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// Get implements [store.Values].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := s.client.Get(ctx, s.prefix+key).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, store.ErrNoValue
	case err != nil:
		return nil, fmt.Errorf("redisstore: get: %w", err)
	}
	return value, nil
}

// Claim implements [store.Values].
func (s *Store) Claim(ctx context.Context, key string, value []byte, life time.Duration) (bool, error) {
	claimed, err := s.client.SetNX(ctx, s.prefix+key, value, life).Result()
	if err != nil {
		return false, fmt.Errorf("redisstore: claim: %w", err)
	}
	return claimed, nil
}

// swap stores a value if the one before it has a digest, or does not exist if that is "". It returns 0
// if there is another one.
var swap = redis.NewScript(`
local old = redis.call('GET', KEYS[1])
if (old and redis.sha1hex(old) or '') ~= ARGV[1] then
	return 0
end
if ARGV[3] == '0' then
	redis.call('DEL', KEYS[1])
else
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
`)

// Update implements [store.Values].
func (s *Store) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	for {
		old, err := s.Get(ctx, key)
		digest := ""
		switch {
		case err == nil:
			sum := sha1.Sum(old) //nolint:gosec // see the import
			digest = hex.EncodeToString(sum[:])
		case !errors.Is(err, store.ErrNoValue):
			return err
		}
		value, life, err := change(old)
		if err != nil {
			return err
		}
		swapped, err := swap.Run(ctx, s.client, []string{s.prefix + key}, digest, value, milliseconds(life)).Int()
		if err != nil {
			return fmt.Errorf("redisstore: update: %w", err)
		}
		if swapped == 1 {
			return nil
		}
	}
}

// milliseconds returns a life as Redis takes it: at least 1 unless there is none.
func milliseconds(life time.Duration) int64 {
	if life <= 0 {
		return 0
	}
	return max(1, life.Milliseconds())
}
