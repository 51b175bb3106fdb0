package wire

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Limits bounds what [Decode] and [SplitBatch] accept. A field that is not
// positive stands for its default.
type Limits struct {
	// MaxBytes is the largest frame, in bytes. Default 4 MiB.
	MaxBytes int
	// MaxDepth is the deepest nesting of objects and arrays in one message; the
	// message itself is level 1. Default 64.
	MaxDepth int
	// MaxBatch is the largest number of messages in one batch. Default 100.
	MaxBatch int
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 4 << 20, MaxDepth: 64, MaxBatch: 100}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxBytes > 0 {
		d.MaxBytes = l.MaxBytes
	}
	if l.MaxDepth > 0 {
		d.MaxDepth = l.MaxDepth
	}
	if l.MaxBatch > 0 {
		d.MaxBatch = l.MaxBatch
	}
	return d
}

// Decode reads one message from a frame, which may have JSON white space around
// it. The error is always an [*Error]. The envelope aliases the frame.
func Decode(frame []byte, lim Limits) (Envelope, error) {
	lim = lim.withDefaults()
	if err := checkSize(frame, lim); err != nil {
		return Envelope{}, err
	}
	p := passes.Get().(*pass)
	defer p.release()
	p.start(frame)

	if err := p.message(); err != nil {
		return Envelope{}, syntaxError(frame, err, lim)
	}
	var env Envelope
	if err := p.envelope(&env, lim); err != nil {
		return Envelope{}, err // not env: it may be half filled
	}
	return env, nil
}

func checkSize(frame []byte, lim Limits) error {
	if len(frame) <= lim.MaxBytes {
		return nil
	}
	return &Error{
		Code: mcp.CodeInvalidRequest, Reason: ReasonTooLarge,
		Message: fmt.Sprintf("the message has %d bytes and the limit is %d", len(frame), lim.MaxBytes),
	}
}

// depthExceeds reports whether valid JSON nests deeper than limit. Two vectorised
// counts answer it for nearly every message; only one with more brackets than
// the limit is walked. That is cheaper than reading the nested values token by
// token, which is the alternative, and the decoder has validated them by then.
func depthExceeds(frame []byte, limit int) bool {
	if bytes.Count(frame, []byte("{"))+bytes.Count(frame, []byte("[")) <= limit {
		return false
	}
	depth := 0
	for i := 0; i < len(frame); i++ {
		switch frame[i] {
		case '"':
			for i++; i < len(frame) && frame[i] != '"'; i++ {
				if frame[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// passes holds idle decoders. A decoder in the pool refers to no frame.
var passes = sync.Pool{New: func() any {
	p := new(pass)
	p.reset()
	return p
}}

// A pass is one walk over one frame. It notes where members are and judges
// them at the end, because members come in any order: method may follow params.
type pass struct {
	// buf feeds dec: from a bytes.Buffer, and from nothing else, the decoder reads
	// without a copy of its own.
	buf   bytes.Buffer
	dec   jsontext.Decoder
	frame []byte
	spans
}

// spans are the raw members that a pass came by; nil for those that are absent.
type spans struct {
	top                                         jsontext.Kind
	jsonrpc, id, method, params, result, errObj jsontext.Value
	name, uri, taskID, requestID, reason, args  jsontext.Value
	meta                                        jsontext.Value
	metaFields                                  metaSpans
}

func (p *pass) start(frame []byte) {
	p.frame = frame
	p.buf = *bytes.NewBuffer(frame)
}

// release puts p into the pool.
func (p *pass) release() {
	p.reset()
	passes.Put(p)
}

// reset forgets the frame. That it is done on release and not on start makes it
// one reset per message, and none holds a frame while it is idle.
func (p *pass) reset() {
	p.buf = bytes.Buffer{}
	p.dec.Reset(&p.buf) // no options: the defaults are the strict ones
	p.frame = nil
	p.spans = spans{}
}

// message walks the frame. The error is one of syntax.
func (p *pass) message() error {
	p.top = p.dec.PeekKind()
	switch p.top {
	case '{':
		if err := p.object(nil, topField); err != nil {
			return err
		}
	case '[':
		return nil // a batch is refused, or split, by what comes next
	default:
		if _, err := p.dec.ReadValue(); err != nil {
			return err
		}
	}
	return p.end()
}

// A fieldFunc returns where the pass keeps the member with that name, nil for a
// member of no interest, and the fieldFunc of the member's own members if they
// are of interest too.
type fieldFunc func(s *spans, name []byte) (dst *jsontext.Value, inner fieldFunc)

func topField(s *spans, name []byte) (*jsontext.Value, fieldFunc) {
	switch string(name) {
	case "jsonrpc":
		return &s.jsonrpc, nil
	case "id":
		return &s.id, nil
	case "method":
		return &s.method, nil
	case "params":
		return &s.params, paramsField
	case "result":
		return &s.result, nil
	case "error":
		return &s.errObj, nil
	}
	return nil, nil
}

func paramsField(s *spans, name []byte) (*jsontext.Value, fieldFunc) {
	switch string(name) {
	case "name":
		return &s.name, nil
	case "uri":
		return &s.uri, nil
	case "taskId":
		return &s.taskID, nil
	case "requestId":
		return &s.requestID, nil
	case "reason":
		return &s.reason, nil
	case "arguments":
		return &s.args, nil
	case "_meta":
		return &s.meta, metaField
	}
	return nil, nil
}

// object walks one object, keeps its members, and keeps the whole of it in dst
// unless that is nil.
func (p *pass) object(dst *jsontext.Value, fields fieldFunc) error {
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	start := int(p.dec.InputOffset()) - len("{")
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := p.member(name, fields); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	if dst != nil {
		*dst = p.span(start)
	}
	return nil
}

// member reads the value that follows a quoted name.
func (p *pass) member(name jsontext.Value, fields fieldFunc) error {
	dst, inner := fields(&p.spans, name[1:len(name)-1])
	if dst == nil && bytes.IndexByte(name, '\\') >= 0 {
		dst, inner = fields(&p.spans, unquote(name)) // "\u0069d" is "id" to everybody else
	}
	if inner != nil && p.dec.PeekKind() == '{' {
		return p.object(dst, inner)
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	if dst != nil {
		*dst = p.span(int(p.dec.InputOffset()) - len(v))
	}
	return nil
}

// span returns the frame from start to where the decoder is, without spare
// capacity, so that an append to it cannot write into the frame. The decoder's
// own values are good only until its next read.
func (p *pass) span(start int) jsontext.Value {
	end := int(p.dec.InputOffset())
	return p.frame[start:end:end]
}

// end checks that nothing but white space follows the message.
func (p *pass) end() error {
	for i := int(p.dec.InputOffset()); i < len(p.frame); i++ {
		switch p.frame[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return &jsontext.SyntacticError{ByteOffset: int64(i), Err: errTrailing}
		}
	}
	return nil
}
