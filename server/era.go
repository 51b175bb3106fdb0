package server

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is the era bridge: the one place where a result that a handler wrote
// without knowing its caller takes the form of the caller's revision.

// checkVersion refuses a modern request of a revision that is not served
// statelessly.
func checkVersion(v mcp.Version) *mcp.Error {
	if era, known := v.Era(); known && era == mcp.Modern {
		return nil
	}
	return mcp.NewError(mcp.CodeUnsupportedVersion, "unsupported protocol version").WithData(
		mcp.UnsupportedVersionData{Supported: mcp.Versions(mcp.Modern), Requested: cut(string(v), 64)})
}

// translate gives an error the code that it has for its caller. A resource that does not
// exist has one of its own in the legacy era alone, and so here inside. An error that asks
// for pages has one for clients of 2025-11-25 alone: where it could be put as a question,
// urlsRequired has done that.
func translate(era mcp.Era, version mcp.Version, err error) error {
	rpc, _ := mcp.AsError(err)
	switch {
	case rpc == nil:
		return err
	case rpc.Code == mcp.CodeURLElicitationRequired && (era == mcp.Modern || !version.AtLeast(mcp.Version20251125)):
		return fmt.Errorf("server: the error %q has a code that has gone out of use (%d), and is not of a handler that could ask",
			rpc.Message, rpc.Code)
	case rpc.Code != mcp.CodeResourceNotFound || era == mcp.Legacy:
		return err
	}
	modern := *rpc
	modern.Code = mcp.CodeInvalidParams
	return &modern
}

// translateFor is translate for the caller of a request.
func translateFor(r *session.Request, err error) error { return translate(r.Era, r.Version, err) }

// taskError is the error of a task, which only modern clients can ask for.
func taskError(err error) error { return translate(mcp.Modern, mcp.LatestVersion, err) }

// repeatsParams reports whether a client repeats arguments in HTTP headers.
func repeatsParams(in *session.Inbound) bool { return in.Era == mcp.Modern && in.Header != nil }

var errNotObject = errors.New("server: a result must encode to a JSON object")

// encode appends the JSON of a result. Modern results say their type, who made
// them and how long they stay fresh; legacy ones say none of it, and nothing else
// that their revision does not know. rest is explained at [session.Dispatcher].
func (s *Server) encode(dst []byte, era mcp.Era, v mcp.Version, result mcp.Result) (_, rest []byte, err error) {
	if result == nil {
		result = &mcp.EmptyResult{}
	}
	at := len(dst)
	switch era {
	case mcp.Legacy:
		dst = append(dst, '{')
	default:
		if result = s.withHint(result); len(*result.ResultMetadata()) > 0 {
			result = s.withServerInfo(result)
			dst = append(append(append(dst, `{"resultType":"`...), resultType(result)...), `",`...)
		} else {
			dst = append(append(append(dst, `{"resultType":"`...), resultType(result)...), `","_meta":`...)
			dst = append(append(dst, s.serverInfo...), ',')
		}
	}
	if page := s.knownPage(v, result); page != nil {
		return dst, page, nil
	}
	mark := len(dst) - 1 // where the result's own brace goes, since our object has opened already
	opened := dst[mark]
	dst, err = s.appendObject(dst[:mark], v, era, result)
	if err != nil {
		return dst[:at], nil, err
	}
	dst[mark] = opened
	if string(dst[mark:]) == ",}" { // the result says nothing of its own
		return append(dst[:mark], '}'), nil, nil
	}
	s.keepPage(v, result, dst[mark+1:])
	return dst, nil, nil
}

// withServerInfo returns a copy of a result that has metadata, with ours.
func (s *Server) withServerInfo(result mcp.Result) mcp.Result {
	merged := mcp.Meta{mcp.MetaServerInfo: s.info}
	for k, v := range *result.ResultMetadata() {
		merged[k] = v
	}
	result = shallowCopy(result)
	*result.ResultMetadata() = merged
	return result
}

// appendObject appends the object of a result, with what its reader's revision knows.
func (s *Server) appendObject(dst []byte, v mcp.Version, era mcp.Era, result mcp.Result) (_ []byte, err error) {
	if era == mcp.Legacy {
		if result, err = downgrade(v, withoutHint(result)); err != nil {
			return dst, err
		}
	}
	return marshalObject(dst, result)
}

// resultType returns what a modern result says of itself.
func resultType(result mcp.Result) string {
	if typed, ok := result.(interface{ ResultType() string }); ok {
		return typed.ResultType()
	}
	return "complete"
}

func marshalObject(dst []byte, result mcp.Result) ([]byte, error) {
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil {
		if dst, ok := appendToolResult(dst, r); ok {
			return dst, nil
		}
	}
	mark := len(dst)
	dst, err := wire.Marshal(dst, result)
	if err == nil && (len(dst) <= mark || dst[mark] != '{') {
		err = errNotObject
	}
	return dst, err
}

// cacheHinted is a result that carries a cache hint.
type cacheHinted interface{ CacheHinted() *mcp.CacheHint }

// withHint fills in what a cacheable result must say in the modern era: stale at
// once, and for everybody who sees the same, unless the handler knows better.
func (s *Server) withHint(result mcp.Result) mcp.Result {
	hinted, ok := result.(cacheHinted)
	if !ok || hinted.CacheHinted().TTL != nil && hinted.CacheHinted().Scope != "" {
		return result
	}
	result = shallowCopy(result)
	hint := result.(cacheHinted).CacheHinted()
	if hint.TTL == nil {
		hint.TTL = new(int64)
	}
	if hint.Scope == "" {
		hint.Scope = s.listHint().Scope
	}
	return result
}

// withoutHint takes the hint away.
func withoutHint(result mcp.Result) mcp.Result {
	hinted, ok := result.(cacheHinted)
	if !ok || *hinted.CacheHinted() == (mcp.CacheHint{}) {
		return result
	}
	result = shallowCopy(result)
	*result.(cacheHinted).CacheHinted() = mcp.CacheHint{}
	return result
}

// shallowCopy copies a result, which its handler may share between requests.
func shallowCopy(result mcp.Result) mcp.Result {
	v := reflect.ValueOf(result)
	if v.Kind() != reflect.Pointer {
		return result
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	return c.Interface().(mcp.Result)
}
