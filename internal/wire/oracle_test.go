package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// An oracle reads a frame as the scanner should, with a jsontext.Decoder, which judges
// all of the grammar, names and UTF-8. It has nothing of the scanner but the names of
// the fields.
type oracle struct {
	dec *jsontext.Decoder
	fields
}

var oracleMembers = map[field]map[string]field{
	wholeMessage: {
		"jsonrpc": fieldJSONRPC, "id": fieldID, "method": fieldMethod, "params": fieldParams,
		"result": fieldResult, "error": fieldError,
	},
	fieldParams: {
		"name": fieldName, "uri": fieldURI, "taskId": fieldTaskID, "requestId": fieldRequestID,
		"reason": fieldReason, "arguments": fieldArguments, "_meta": fieldMeta,
	},
	fieldMeta: {
		"io.modelcontextprotocol/protocolVersion":    fieldVersion,
		"io.modelcontextprotocol/clientInfo":         fieldClientInfo,
		"io.modelcontextprotocol/clientCapabilities": fieldCapabilities,
		"io.modelcontextprotocol/logLevel":           fieldLogLevel,
		"progressToken":                              fieldProgressToken,
		"traceparent":                                fieldTraceParent,
		"tracestate":                                 fieldTraceState,
		"baggage":                                    fieldBaggage,
	},
}

func askOracle(frame []byte) (fields, error) {
	o := oracle{dec: jsontext.NewDecoder(bytes.NewBuffer(frame))}
	o.frame = frame
	o.top = o.dec.PeekKind()
	if o.top == '[' {
		return o.fields, nil
	}
	if err := o.value(wholeMessage); err != nil {
		return fields{}, err
	}
	end := o.dec.InputOffset()
	if rest := bytes.TrimLeft(frame[end:], " \t\r\n"); len(rest) > 0 {
		return fields{}, &jsontext.SyntacticError{ByteOffset: int64(len(frame) - len(rest)), Err: errTrailing}
	}
	o.depth = treeDepth(frame)
	return o.fields, nil
}

func (o *oracle) value(f field) error {
	kind := o.dec.PeekKind()
	start := 0
	if members := oracleMembers[f]; members != nil && kind == '{' {
		if _, err := o.dec.ReadToken(); err != nil {
			return err
		}
		start = int(o.dec.InputOffset()) - 1
		for o.dec.PeekKind() != '}' {
			quoted, err := o.dec.ReadValue()
			if err != nil {
				return err
			}
			name, err := jsontext.AppendUnquote(nil, quoted)
			if err != nil {
				return err
			}
			if err := o.value(members[string(name)]); err != nil {
				return err
			}
		}
		if _, err := o.dec.ReadToken(); err != nil {
			return err
		}
	} else {
		v, err := o.dec.ReadValue()
		if err != nil {
			return err
		}
		start = int(o.dec.InputOffset()) - len(v)
	}
	if f != noField && f != wholeMessage {
		o.found[f] = span{start, int(o.dec.InputOffset())}
	}
	return nil
}

// checkOracle checks that the scanner finds what the oracle finds, and that Decode says
// the same of it, the texts of errors included.
func checkOracle(t *testing.T, frame []byte, lim Limits) {
	t.Helper()
	lim = lim.withDefaults()
	want, fault := askOracle(frame)

	s := newScanner(frame, lim.MaxDepth)
	ok := s.message()
	got := s.fields
	s.release()
	if got.depth > lim.MaxDepth && fault != nil { // what is nested deeper is not checked
		bad := (*Error)(nil)
		if _, err := Decode(frame, lim); !errors.As(err, &bad) || bad.Reason != ReasonTooDeep && bad.Reason != ReasonInvalidUTF8 && bad.Reason != ReasonTooLarge {
			t.Fatalf("%q: too deep and broken, and refused with %v", frame, err)
		}
		return
	}
	switch {
	case ok != (fault == nil):
		t.Fatalf("%q: the scanner accepts it: %t; the decoder: %v", frame, ok, fault)
	case ok && (got.found != want.found || got.depth != want.depth || (got.top == '{') != (want.top == '{')):
		t.Fatalf("%q:\nscanner %v depth %d\ndecoder %v depth %d", frame, got.found, got.depth, want.found, want.depth)
	}
	if len(frame) > lim.MaxBytes {
		return
	}
	var wantEnv Envelope
	var wantErr error
	if fault != nil {
		wantErr = syntaxError(frame, fault, lim)
	} else if wantErr = want.envelope(&wantEnv, lim); wantErr != nil {
		wantEnv = Envelope{}
	}
	env, err := Decode(frame, lim)
	if !reflect.DeepEqual(err, wantErr) {
		t.Fatalf("%q:\nrefused with %v\nwant         %v", frame, err, wantErr)
	}
	if !reflect.DeepEqual(env, wantEnv) {
		t.Fatalf("%q:\nenvelope %+v\nwant     %+v", frame, env, wantEnv)
	}
}

func FuzzScanner(f *testing.F) {
	addScripts(f)
	for i, frame := range oracleFrames() {
		if i%50 == 0 { // with all of them a short run would not come to inputs of its own
			f.Add(frame)
		}
	}
	lim := Limits{MaxBytes: 1 << 16, MaxDepth: 16, MaxBatch: 10}
	f.Fuzz(func(t *testing.T, frame []byte) { checkOracle(t, frame, lim) })
}
