package server

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/template"
)

// Readable is what the handler of a resource may return: its text, its bytes, its
// parts, or the whole result.
type Readable interface {
	string | []byte | []mcp.ResourceContents | *mcp.ReadResourceResult
}

// readResult returns the result of resources/read for what a handler has returned. It does not
// change that, because the handler may share it between requests.
func readResult[Out Readable](uri, mimeType string, hint mcp.CacheHint, out Out, err error) (mcp.Result, error) {
	if err != nil {
		return nil, readFailure(uri, err)
	}
	result := contentsOf(uri, mimeType, out)
	if result == nil || len(result.Contents) == 0 {
		return nil, errors.New("the handler returned no contents")
	}
	whole := *result
	if err := hintFault(whole.CacheHint); err != nil {
		return nil, err
	}
	if whole.Contents, err = complete(uri, mimeType, whole.Contents); err != nil {
		return nil, err
	}
	if whole.TTL == nil {
		whole.TTL = hint.TTL
	}
	if whole.Scope == "" {
		whole.Scope = hint.Scope
	}
	return &whole, nil
}

// contentsOf returns what a handler has returned as a result.
func contentsOf[Out Readable](uri, mimeType string, out Out) *mcp.ReadResourceResult {
	one := func(c mcp.ResourceContents) *mcp.ReadResourceResult {
		c.URI, c.MIMEType = uri, mimeType
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}
	}
	switch out := any(out).(type) {
	case string:
		return one(mcp.ResourceContents{Text: out})
	case []byte:
		if out == nil {
			out = []byte{} // nil would be an empty text
		}
		return one(mcp.ResourceContents{Blob: out})
	case []mcp.ResourceContents:
		return &mcp.ReadResourceResult{Contents: out}
	case *mcp.ReadResourceResult:
		return out
	}
	return nil
}

// isNil reports whether a content block is no block: a nil interface, or one with a nil pointer. It does not allocate.
func isNil(block mcp.Content) bool {
	v := reflect.ValueOf(block)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// complete fills in the URIs and MIME types that are missing in contents.
func complete(uri, mimeType string, contents []mcp.ResourceContents) ([]mcp.ResourceContents, error) {
	copied := false
	for i, c := range contents {
		if c.Text != "" && c.Blob != nil {
			return nil, fmt.Errorf("contents %d have both a text and a blob", i)
		}
		if c.URI != "" && (c.MIMEType != "" || mimeType == "") {
			continue
		}
		if !copied {
			contents, copied = slices.Clone(contents), true
		}
		if c.URI == "" {
			contents[i].URI = uri
		}
		if c.MIMEType == "" {
			contents[i].MIMEType = mimeType
		}
	}
	return contents, nil
}

// readFailure returns the error of a handler, with the URI if the resource does not exist.
func readFailure(uri string, err error) error {
	if errors.Is(err, ErrResourceNotFound) {
		return noResource(uri)
	}
	if rpc, _ := mcp.AsError(err); rpc != nil && rpc.Code == mcp.CodeResourceNotFound && rpc.Data == nil {
		return rpc.WithData(mcp.ResourceErrorData{URI: uri})
	}
	return err
}

// readHint returns the cache hint of a registration for results whose handler sets none. Its scope is
// "" if it depends on the server, see hinted.
func readHint(ttl time.Duration, scope mcp.CacheScope, needs need) (mcp.CacheHint, error) {
	switch {
	case ttl < 0:
		return mcp.CacheHint{}, errors.New("the TTL is negative")
	case scope == mcp.CachePublic && needs.is():
		return mcp.CacheHint{}, errors.New("what needs scopes must not have the cache scope public")
	case scope == "" && needs.is():
		scope = mcp.CachePrivate
	}
	hint := mcp.CacheFor(ttl, scope)
	return hint, hintFault(hint)
}

// hintFault returns an error for a hint that the protocol does not allow. A hint may be left out, or a part of it.
func hintFault(hint mcp.CacheHint) error {
	switch {
	case hint.TTL != nil && *hint.TTL < 0:
		return errors.New("the TTL is negative")
	case hint.Scope != "" && hint.Scope != mcp.CachePublic && hint.Scope != mcp.CachePrivate:
		return fmt.Errorf("there is no cache scope %q", cut(string(hint.Scope), 128))
	}
	return nil
}

// hinted returns the cache hint of a registration with its scope. What may depend on the caller is
// private.
func (s *Server) hinted(hint mcp.CacheHint) mcp.CacheHint {
	switch {
	case hint.Scope != "":
	case s.access.restricts || s.personal:
		hint.Scope = mcp.CachePrivate
	default:
		hint.Scope = mcp.CachePublic
	}
	return hint
}

// ErrResourceNotFound is the error of a handler for a resource that does not exist. It may be
// wrapped. The client gets the error of its revision, with the URI.
var ErrResourceNotFound error = mcp.NewError(mcp.CodeResourceNotFound, "the resource does not exist")

// noResource returns the error for a URI without a resource.
func noResource(uri string) *mcp.Error {
	return mcp.NewError(mcp.CodeResourceNotFound, "there is no resource %q", cut(uri, 128)).
		WithData(mcp.ResourceErrorData{URI: uri})
}

// maxURI is the longest URI of a resource, in bytes.
const maxURI = template.MaxLength
