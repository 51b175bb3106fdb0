package wire

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// modernCall is a tools/call of 264 bytes, as a modern client sends it.
const modernCall = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` +
	`{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

const tracedCall = `{"jsonrpc":"2.0","id":"7f3a","method":"tools/call","params":{"_meta":{` +
	`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=b","baggage":"k=v","progressToken":70123,` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c1","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}},"name":"echo","arguments":{"text":"hi"}}}`

func BenchmarkDecode(b *testing.B) {
	large := []byte(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{"rows":[` +
		string(bytes.Repeat([]byte(`{"id":12345,"name":"some text here","tags":["a","b"]},`), 20000)) + `null]}}}`)
	text := []byte(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
		string(bytes.Repeat([]byte("abcdefgh"), 1<<17)) + `"}}}`)
	for _, bm := range []struct {
		name  string
		frame []byte
	}{
		{"modern264", []byte(modernCall)},
		{"traced", []byte(tracedCall)},
		{"ping", []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)},
		{"notjson", []byte(`{"jsonrpc":"2.0",`)},
		{"rows1MB", large},
		{"text1MB", text},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.frame)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Decode(bm.frame, Limits{})
			}
		})
	}
}

// BenchmarkValidate compares the scanner with the decoder that it replaces.
func BenchmarkValidate(b *testing.B) {
	frame := []byte(modernCall)
	b.Run("scanner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := newScanner(frame, maxNesting)
			_ = s.message()
			s.release()
		}
	})
	b.Run("jsontext.Value.IsValid", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = jsontext.Value(frame).IsValid()
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	id := mcp.IntID(42)
	result := []byte(`{"content":[{"type":"text","text":"hello"}],"resultType":"complete"}`)
	dst := make([]byte, 0, 1024)
	value := map[string]any{"content": []any{map[string]any{"type": "text", "text": "hello"}}}
	type typed struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	}
	b.Run("AppendResponseHead", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = append(append(AppendResponseHead(dst[:0], id), result...), '}')
		}
	})
	b.Run("AppendError", func(b *testing.B) {
		e := mcp.NewError(mcp.CodeInvalidParams, "unknown tool").WithData(mcp.ErrorData{Reason: "x"})
		b.ReportAllocs()
		for b.Loop() {
			dst = AppendError(dst[:0], id, e)
		}
	})
	b.Run("MarshalMap", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = Marshal(dst[:0], value)
		}
	})
	b.Run("MarshalStruct", func(b *testing.B) {
		v := &typed{"hello", 1}
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = Marshal(dst[:0], v)
		}
	})
}

func TestModernCallIsTheMeasuredSize(t *testing.T) {
	if len(modernCall) != 264 {
		t.Errorf("modernCall has %d bytes, and the target is stated for 264", len(modernCall))
	}
}
