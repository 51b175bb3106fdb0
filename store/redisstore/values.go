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
		return nil, fault("get", err)
	}
	return value, nil
}

// Claim implements [store.Values].
func (s *Store) Claim(ctx context.Context, key string, value []byte, life time.Duration) (bool, error) {
	err := s.once(ctx, "set", s.prefix+key, value, "px", max(1, milliseconds(life)), "nx").Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fault("claim", err)
	}
	return err == nil, nil
}

// once runs a command that must not run twice. If a connection fails before its answer has come, go-redis
// sends other commands again. A second SET NX would then say that another caller has the claim, and a
// second swap that another caller has changed the value.
func (s *Store) once(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = s.process(ctx, cmd) // the command has the error, too
	return cmd
}

// process runs a command that go-redis does not send again. After a failure of such a command go-redis would not look for the
// successor of the server, either.
func (s *Store) process(ctx context.Context, cmd *redis.Cmd) error {
	err := s.client.Process(ctx, unrepeated{cmd})
	var answer redis.Error
	if cluster := s.cluster(); cluster != nil && err != nil && !errors.As(err, &answer) {
		cluster.ReloadState(ctx)
	}
	return err
}

type unrepeated struct{ *redis.Cmd }

// NoRetry tells go-redis not to send the command again.
func (unrepeated) NoRetry() bool { return true }

// swapSource stores a value if the one before it has a digest, or does not exist if that is "". It returns
// 0 if there is another one.
const swapSource = `
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
`

var swapScript = redis.NewScript(swapSource)

// Update implements [store.Values]. Each try is a GET and an EVALSHA. While other callers change the same
// value, it tries again after a short random pause, until ctx ends.
func (s *Store) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	for try := 0; ; try++ {
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
		swapped, err := s.swap(ctx, s.prefix+key, digest, value, milliseconds(life))
		if err != nil {
			return fault("update", err)
		}
		if swapped {
			return nil
		}
		if err := pause(ctx, try, time.Millisecond, maxUpdatePause); err != nil {
			return fmt.Errorf("redisstore: update: others have changed the value before each of %d tries: %w", try+1, err)
		}
	}
}

// maxUpdatePause bounds the pause between two tries of an update. One try takes two round trips.
const maxUpdatePause = 32 * time.Millisecond

// swap runs the script, and reports whether it has stored the value.
func (s *Store) swap(ctx context.Context, key, digest string, value []byte, life int64) (bool, error) {
	return s.run(ctx, swapScript, swapSource, key, digest, value, life).Bool()
}

// milliseconds returns a life as Redis takes it: at least 1 unless there is none.
func milliseconds(life time.Duration) int64 {
	if life <= 0 {
		return 0
	}
	return max(1, life.Milliseconds())
}
