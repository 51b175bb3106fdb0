package servertest

import (
	"errors"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func requestFrame(id mcp.ID, method string, params []byte) []byte {
	return append(wire.AppendRequest(nil, id, method, params), '\n')
}

func notificationFrame(method string, params []byte) []byte {
	return append(wire.AppendNotification(nil, method, params), '\n')
}

func cancelFrame(id mcp.ID) []byte {
	return notificationFrame(mcp.NotificationCancelled, []byte(`{"requestId":`+id.Raw()+`}`))
}

// requestParams adds the _meta member of the protocol revision to the params of a request.
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

// requestMeta returns the _meta member of a request.
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

// objectOf encodes params, which may be nil.
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
