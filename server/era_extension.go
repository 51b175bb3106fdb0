package server

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// declaredExtension returns what the sender of a message has declared about an
// extension. Modern clients declare with each request. Legacy ones did in initialize,
// those of before the extensions under "experimental". sess may be nil.
func declaredExtension(in *session.Inbound, sess *session.Session, id string) (settings jsontext.Value, declared bool) {
	if in.Era == mcp.Modern {
		return onlyObject(schema.At(in.Meta.ClientCapabilities, "extensions", id))
	}
	if sess == nil || sess.Peer() == nil || extensionEras(id)&inLegacy == 0 {
		return nil, false
	}
	caps := sess.Peer().Capabilities
	for _, declaration := range []map[string]any{caps.Extensions, caps.Experimental} {
		if value, found := declaration[id]; found {
			raw, _ := wire.Marshal(nil, value) // it came as JSON
			return onlyObject(raw)
		}
	}
	return nil, false
}

// onlyObject: nothing but an object declares an extension.
func onlyObject(settings jsontext.Value) (jsontext.Value, bool) {
	if settings.Kind() != '{' {
		return nil, false
	}
	return settings, true
}

// extensionEras tells in which eras an extension can be used. Tasks need a type of
// result that the legacy era does not have.
func extensionEras(id string) eras {
	if id == mcp.ExtensionTasks {
		return inModern
	}
	return inBoth
}

// encodeResult returns the JSON of a result as the call would have been answered with.
func (c *Call) encodeResult(result mcp.Result) (jsontext.Value, error) {
	if kind := resultType(result); kind != "complete" {
		return nil, fmt.Errorf("server: a result of type %q cannot end a task", kind)
	}
	json, _, err := c.server.encode(nil, c.Peer.Era, c.Peer.Version, result) // of a call, which shares nothing
	return json, err
}

// notDeclared is the answer to a request that needs an extension which its client
// has not declared. For a legacy client the method is just not there.
func notDeclared(req *middleware.Request, id string) *mcp.Error {
	if req.Peer.Era == mcp.Modern {
		return mcp.NewError(mcp.CodeMissingRequiredCapability, "the client must declare the extension %s", id).
			WithData(mcp.MissingCapabilityData{
				RequiredCapabilities: mcp.ClientCapabilities{Extensions: map[string]any{id: struct{}{}}},
			})
	}
	return mcp.NewError(mcp.CodeMethodNotFound, "this is for clients with the extension %s", id)
}
