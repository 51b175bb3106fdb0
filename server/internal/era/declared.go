package era

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// This file knows what a client has declared, and the error for a request that needs more.

// Extension returns the settings that the sender of a message has declared for an extension.
// Modern clients declare extensions with each request. Legacy clients declare them in initialize,
// older ones under "experimental". sess may be nil.
func Extension(in *session.Inbound, sess *session.Session, id string) (settings jsontext.Value, declared bool) {
	if in.Era == mcp.Modern {
		return onlyObject(schema.At(in.Meta.ClientCapabilities, "extensions", id))
	}
	return SessionExtension(sess, id)
}

// SessionExtension returns the settings that a legacy client has declared for an extension in
// initialize. sess may be nil.
func SessionExtension(sess *session.Session, id string) (settings jsontext.Value, declared bool) {
	if sess == nil || sess.Peer() == nil || !OfExtension(id).Has(mcp.Legacy) {
		return nil, false
	}
	caps := sess.Peer().Capabilities
	for _, declaration := range []map[string]any{caps.Extensions, caps.Experimental} {
		if value, found := declaration[id]; found {
			raw, _ := wire.Marshal(nil, value) // it was decoded from JSON
			return onlyObject(raw)
		}
	}
	return nil, false
}

// onlyObject returns settings that are an object. Any other value declares nothing.
func onlyObject(settings jsontext.Value) (jsontext.Value, bool) {
	if settings.Kind() != '{' {
		return nil, false
	}
	return settings, true
}

// OfExtension returns the eras in which an extension can be used. Tasks need a type of result
// that the legacy era does not have.
func OfExtension(id string) Set {
	if id == mcp.ExtensionTasks {
		return Modern
	}
	return Both
}

// RequireExtension returns the error for a request that needs an extension, or nil if the client
// has declared it.
func RequireExtension(req *middleware.Request, id string) error {
	core := CoreOf(req)
	if _, declared := Extension(core.Inbound, core.Session(), id); declared {
		return nil
	}
	return MissingExtension(req, id)
}

// MissingExtension returns the error for a request that needs an extension. A legacy client is
// told that there is no such method.
func MissingExtension(req *middleware.Request, id string) *mcp.Error {
	if req.Peer.Era == mcp.Modern {
		return mcp.NewError(mcp.CodeMissingRequiredCapability, "the client must declare the extension %s", id).
			WithData(mcp.MissingCapabilityData{
				RequiredCapabilities: mcp.ClientCapabilities{Extensions: map[string]any{id: struct{}{}}},
			})
	}
	return mcp.NewError(mcp.CodeMethodNotFound, "this is for clients with the extension %s", id)
}

// Askable returns the capabilities that a client has declared, with what its revision adds or
// does not have.
func Askable(req *middleware.Request) mcp.ClientCapabilities {
	caps := req.Capabilities()
	v := req.Peer.Version
	if req.Peer.Era == mcp.Modern || v.AtLeast(mcp.Version20251125) {
		return caps
	}
	if caps.Sampling != nil { // older revisions have no tools, and always have a context
		caps.Sampling = &mcp.SamplingCapability{Context: &struct{}{}}
	}
	if caps.Elicitation != nil {
		caps.Elicitation = &mcp.ElicitationCapability{Form: &struct{}{}}
	}
	if !v.AtLeast(mcp.Version20250618) {
		caps.Elicitation = nil
	}
	return caps
}

// NotDeclared returns the answer to a request whose handler needs a capability that the client
// has not declared. err says which.
func NotDeclared(req *middleware.Request, err error) (mcp.Result, error) {
	required := missingIn(err)
	text := err.Error()
	data := mcp.MissingCapabilityData{RequiredCapabilities: required}
	switch {
	case req.Peer.Era == mcp.Modern:
		return nil, mcp.NewError(mcp.CodeMissingRequiredCapability, "%s", text).WithData(data)
	case req.Method == mcp.MethodToolsCall:
		return mcp.ToolErrorResult(text), nil
	}
	return nil, mcp.NewError(mcp.CodeInvalidRequest, "%s", text).WithData(data)
}

// missingIn returns the union of the capabilities that are missing in a tree of errors.
func missingIn(err error) (sum mcp.ClientCapabilities) {
	if e, ok := err.(*mcp.NotDeclaredError); ok {
		return e.Missing
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return missingIn(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range wrapper.Unwrap() {
			sum = sum.Union(missingIn(err))
		}
	}
	return sum
}

// TellsRoots reports whether the sender of a message may say that its roots have changed: a
// legacy client that has declared roots. sess may be nil.
func TellsRoots(in *session.Inbound, sess *session.Session) bool {
	return in.Era == mcp.Legacy && sess != nil && sess.Peer() != nil && sess.Peer().Capabilities.Roots != nil
}

// WantsLog reports whether the client wants messages of a severity. A modern client sets the
// level with the request, a legacy client for its session.
func WantsLog(r *session.Request, severity int) bool {
	least := mcp.LoggingLevel("")
	if r.Era == mcp.Modern {
		least = logLevelOf(&r.Meta)
	} else if sess := r.Session(); sess != nil {
		if least = sess.LogLevel(); least == "" {
			least = mcp.LogInfo
		}
	}
	return least != "" && severity >= least.Severity()
}

// logLevelOf returns the level in the metadata of a request; "" if there is none.
func logLevelOf(meta *wire.Meta) (level mcp.LoggingLevel) {
	_ = wire.Unmarshal(meta.LogLevel, &level) // a value that is no string is no level
	return level
}

// CheckLogLevel returns the error for a modern request with an unknown log level, or nil.
func CheckLogLevel(in *session.Inbound) *mcp.Error {
	if in.Meta.LogLevel == nil || logLevelOf(&in.Meta).Severity() >= 0 {
		return nil
	}
	return BadLogLevel("params._meta." + mcp.MetaLogLevel)
}

// BadLogLevel returns the error for an unknown log level.
func BadLogLevel(member string) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "%s must be one of %v", member, mcp.LoggingLevels())
}
