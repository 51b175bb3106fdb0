package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// takeSource takes tokens from a bucket by the clock of the server. A bucket is "<tokens> <microseconds>", the
// time at which it had them, and ends when it is full again. A clock that was set back, such as by a failover, costs
// it what it has earned since the last call, and no more.
const takeSource = `
local burst, fill, spent, more = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now, tokens = time[1] * 1000000 + time[2], burst
local old = redis.call('GET', KEYS[1])
if old then
	local had, at = string.match(old, '^(%S+) (%S+)$')
	tokens = math.min(burst, tonumber(had) + burst * math.max(0, now - tonumber(at)) / fill)
end
tokens = math.max(-burst, math.min(burst, tokens - spent))
local taken = math.max(0, math.min(more, math.floor(tokens)))
tokens = tokens - taken
if tokens < burst then
	local life = math.ceil((burst - tokens) / burst * fill / 1000)
	redis.call('SET', KEYS[1], string.format('%.17g %.0f', tokens, now), 'PX', string.format('%.0f', math.min(life, tonumber(ARGV[5]))))
else
	redis.call('DEL', KEYS[1])
end
return {taken, string.format('%.17g', tokens)}
`

var takeScript = redis.NewScript(takeSource)

// longestLife bounds how long a bucket is kept.
const longestLife = 10 * 366 * 24 * time.Hour

// Take implements [store.Buckets]. It is one EVALSHA.
func (s *Store) Take(ctx context.Context, key string, b store.Bucket, spent, more int) (t store.Tokens, err error) {
	cmd := s.run(ctx, takeScript, takeSource, s.prefix+"buckets/"+key,
		b.Burst, max(1, b.Fill.Microseconds()), spent, more, longestLife.Milliseconds())
	said, err := cmd.Slice()
	if err != nil {
		return t, fault("take", err)
	}
	if len(said) == 2 {
		taken, counted := said[0].(int64)
		left, isText := said[1].(string)
		t.Taken = int(taken)
		t.Left, err = strconv.ParseFloat(left, 64)
		if counted && isText && err == nil && !math.IsNaN(t.Left) {
			return t, nil
		}
	}
	return store.Tokens{}, fmt.Errorf("redisstore: take: the script has returned %v", said)
}
