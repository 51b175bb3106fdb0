package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// The events of a session are one hash, so that its bounds hold in one atomic step, its end is one command,
// and all of it is in one slot of a cluster. The fields are:
//
//	b              bytes that count
//	h, t           numbers of the oldest event and of the next one, in the session
//	q<number>      "<stream> <seq> <bytes that count>" of an event
//	s<stream>      "<seq of the oldest event> <seq of the last one>"
//	e<stream> <seq>  the event: see encodeEvent
//
// A Redis stream for each MCP stream has no bound in bytes, and none for the session.

// appendSource appends an event. It returns the name of an error, or the evicted events: for each one what
// has evicted it, its stream and its seq.
const appendSource = `
local key, stream, seq, event = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local events, bytes, size = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local got = redis.call('HMGET', key, 's' .. stream, 'h', 't', 'b')
local first, last = seq, 0
if got[1] then
	local a, b = string.match(got[1], '^(%d+) (%d+)$')
	first, last = tonumber(a), tonumber(b)
end
if last + 1 ~= seq then
	return {'fenced'}
end
local head, tail, held = tonumber(got[2] or 0), tonumber(got[3] or 0), tonumber(got[4] or 0)
local evicted = {}
while head < tail and (tail - head >= events or held + size > bytes) do
	local place = string.format('q%d', head)
	local name = redis.call('HMGET', key, place)[1]
	local of, n, took = string.match(name, '^(%S+) (%d+) (%d+)$')
	redis.call('HDEL', key, place, 'e' .. of .. ' ' .. n)
	if of == stream then
		first = tonumber(n) + 1
	else
		local latest = string.match(redis.call('HMGET', key, 's' .. of)[1], ' (%d+)$')
		if latest == n then
			redis.call('HDEL', key, 's' .. of)
		else
			redis.call('HSET', key, 's' .. of, string.format('%d %s', tonumber(n) + 1, latest))
		end
	end
	table.insert(evicted, tail - head >= events and 'events' or 'bytes')
	table.insert(evicted, of)
	table.insert(evicted, n)
	head, held = head + 1, held - tonumber(took)
end
local name = stream .. ' ' .. ARGV[2]
redis.call('HSET', key, 's' .. stream, string.format('%d %d', first, seq), 'e' .. name, event,
	string.format('q%d', tail), name .. ' ' .. ARGV[6], 'h', head, 't', tail + 1, 'b', held + size)
redis.call('PEXPIRE', key, ARGV[7])
return evicted
`

// afterSource returns the seq of the first event that follows one, and the events.
const afterSource = `
local range = redis.call('HMGET', KEYS[1], 's' .. ARGV[1])[1]
if not range then
	return {}
end
local first, last = string.match(range, '^(%d+) (%d+)$')
first, last = math.max(tonumber(first), tonumber(ARGV[2]) + 1), tonumber(last)
local all = {string.format('%d', first)}
for seq = first, last do
	table.insert(all, redis.call('HMGET', KEYS[1], string.format('e%s %d', ARGV[1], seq))[1])
end
return all
`

var appendScript, afterScript = redis.NewScript(appendSource), redis.NewScript(afterSource)

func (s *Store) eventsKey(session string) string { return s.prefix + "events/{" + session + "}" }

// Append implements [store.EventLog]. It is one EVALSHA.
func (s *Store) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) ([]store.EvictedEvent, error) {
	size := len(e.Data) + len(e.Note) + store.EventOverhead
	if size > b.Bytes || b.Events < 1 {
		return nil, fmt.Errorf("%w: it takes %d bytes", store.ErrEventTooLarge, size)
	}
	cmd := s.run(ctx, appendScript, appendSource, s.eventsKey(session),
		e.Stream, e.Seq, encodeEvent(e), b.Events, b.Bytes, size, max(1, milliseconds(b.Life)))
	said, err := cmd.StringSlice()
	switch {
	case err != nil:
		return nil, fault("append", err)
	case len(said) == 1:
		return nil, fmt.Errorf("%w: event %d does not follow the last one", store.ErrEventFenced, e.Seq)
	}
	var evicted []store.EvictedEvent
	for ; len(said) >= 3; said = said[3:] {
		out := store.EvictedEvent{Stream: said[1], ByBytes: said[0] == "bytes"}
		if _, err := fmt.Sscan(said[2], &out.Seq); err != nil {
			return nil, fault("append", err)
		}
		evicted = append(evicted, out)
	}
	return evicted, nil
}

// After implements [store.EventLog]. It is one EVALSHA.
func (s *Store) After(ctx context.Context, session, stream string, seq uint64) ([]store.Event, error) {
	said, err := s.run(ctx, afterScript, afterSource, s.eventsKey(session), stream, seq).StringSlice()
	if err != nil {
		return nil, fault("after", err)
	}
	if len(said) == 0 {
		return nil, nil
	}
	var first uint64
	if _, err := fmt.Sscan(said[0], &first); err != nil {
		return nil, fault("after", err)
	}
	events := make([]store.Event, 0, len(said)-1)
	for i, text := range said[1:] {
		e, err := decodeEvent(text)
		if err != nil {
			return nil, fault("after", err)
		}
		e.Stream, e.Seq = stream, first+uint64(i)
		events = append(events, e)
	}
	return events, nil
}

// Delete implements [store.EventLog].
func (s *Store) Delete(ctx context.Context, session string) error {
	if err := s.once(ctx, "del", s.eventsKey(session)).Err(); err != nil {
		return fault("delete", err)
	}
	return nil
}

// encodeEvent returns a byte with flags, the length of the note as a varint, the note, and the data.
func encodeEvent(e store.Event) []byte {
	text := make([]byte, 1, 1+binary.MaxVarintLen64+len(e.Note)+len(e.Data))
	if e.Last {
		text[0] = flagLast
	}
	text = binary.AppendUvarint(text, uint64(len(e.Note)))
	return append(append(text, e.Note...), e.Data...)
}

// flagLast is the flag of the last event of a stream.
const flagLast = 1

// errEvent says that an event was written by another release, or by another program.
var errEvent = errors.New("an event cannot be decoded")

func decodeEvent(text string) (e store.Event, err error) {
	if text == "" || text[0]&^flagLast != 0 {
		return e, errEvent
	}
	n, size := binary.Uvarint([]byte(text[1:min(len(text), 1+binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(text)-1-size) {
		return e, errEvent
	}
	note, data := text[1+size:1+size+int(n)], text[1+size+int(n):] //nolint:gosec // n is below the length
	return store.Event{Last: text[0] == flagLast, Note: []byte(note), Data: []byte(data)}, nil
}

// run runs a script once, and loads it if the server does not know it.
func (s *Store) run(ctx context.Context, script *redis.Script, source, key string, args ...any) *redis.Cmd {
	cmd := s.once(ctx, append([]any{"evalsha", script.Hash(), 1, key}, args...)...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = s.once(ctx, append([]any{"eval", source, 1, key}, args...)...)
	}
	return cmd
}
