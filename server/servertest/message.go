package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// limits lets everything pass that the server under test may send.
var limits = wire.Limits{MaxBytes: 1 << 30, MaxDepth: 10_000}

// readMessages reads until the connection ends. It is the one reader.
func (c *Client) readMessages() error {
	in := bufio.NewReader(c.conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		msg, err := wire.Decode(line, limits)
		if err != nil {
			_ = c.conn.Close() // what follows cannot be trusted
			return fmt.Errorf("the server sent %q: %w", line, err)
		}
		switch msg.Kind {
		case wire.Response:
			c.deliver(&msg)
		case wire.Notification:
			c.notified(&msg)
		case wire.Request:
			c.asked(&msg)
		}
	}
}

// deliver hands a response to the call that waits for it, if one still does, or to its
// subscription.
func (c *Client) deliver(msg *wire.Envelope) {
	c.mu.Lock()
	answer := c.pending[msg.ID.Key()]
	delete(c.pending, msg.ID.Key())
	c.mu.Unlock()
	r := responseOf(msg)
	if s := c.subscription(msg.ID.Raw()); s != nil {
		s.end(r.err)
	}
	if answer != nil { // else cancelled meanwhile
		answer <- r
	}
}

func responseOf(msg *wire.Envelope) response {
	if msg.Error == nil {
		return response{result: msg.Result}
	}
	e := new(mcp.Error)
	if err := json.Unmarshal(msg.Error, e); err != nil {
		return response{err: fmt.Errorf("servertest: the server sent a bad error %s: %w", msg.Error, err)}
	}
	return response{err: e}
}

func (c *Client) notified(msg *wire.Envelope) {
	c.changed(msg)
	if f := c.cfg.notification; f != nil {
		f(msg.Method, msg.Params)
	}
	if f := c.cfg.progress; f != nil && msg.Method == mcp.NotificationProgress {
		var p Progress
		if json.Unmarshal(msg.Params, &p) == nil {
			f(p)
		}
	}
}

func requestFrame(id mcp.ID, method string, params []byte) []byte {
	return append(wire.AppendRequest(nil, id, method, params), '\n')
}

func notificationFrame(method string, params []byte) []byte {
	return append(wire.AppendNotification(nil, method, params), '\n')
}

func cancelFrame(id mcp.ID) []byte {
	return notificationFrame(mcp.NotificationCancelled, []byte(`{"requestId":`+id.Raw()+`}`))
}

// requestParams adds to the params of a request what the revision wants in _meta.
func (c *config) requestParams(params any, id mcp.ID) ([]byte, error) {
	want, err := c.requestMeta(id)
	if err != nil {
		return nil, err
	}
	if len(want) == 0 {
		return objectOf(params)
	}
	members, err := membersOf(params)
	if err != nil {
		return nil, err
	}
	meta := map[string]jsontext.Value{}
	if given := members["_meta"]; given != nil {
		if err := json.Unmarshal(given, &meta); err != nil {
			return nil, err
		}
	}
	maps.Copy(want, meta)
	if members["_meta"], err = wire.Marshal(nil, want); err != nil {
		return nil, err
	}
	return wire.Marshal(nil, members)
}

// requestMeta is the _meta member of a request.
func (c *config) requestMeta(id mcp.ID) (map[string]jsontext.Value, error) {
	meta := map[string]jsontext.Value{}
	if c.progress != nil {
		meta[mcp.MetaProgressToken] = jsontext.Value(id.Raw())
	}
	if era, _ := c.version.Era(); era == mcp.Legacy {
		return meta, nil
	}
	for key, value := range map[string]any{
		mcp.MetaProtocolVersion: c.version, mcp.MetaClientInfo: c.client, mcp.MetaClientCapabilities: c.capabilities,
	} {
		raw, err := wire.Marshal(nil, value)
		if err != nil {
			return nil, err
		}
		meta[key] = raw
	}
	return meta, nil
}

var errNotObject = errors.New("params must encode to a JSON object")

// objectOf encodes params; nil are none.
func objectOf(params any) (jsontext.Value, error) {
	if params == nil {
		return nil, nil
	}
	raw, err := wire.Marshal(nil, params)
	if err == nil && jsontext.Value(raw).Kind() != '{' {
		err = errNotObject
	}
	return raw, err
}

// membersOf returns the members of params, which must encode to an object, or be nil.
func membersOf(params any) (map[string]jsontext.Value, error) {
	members := map[string]jsontext.Value{}
	raw, err := objectOf(params)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &members)
	}
	return members, err
}
