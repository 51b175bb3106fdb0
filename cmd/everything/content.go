package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// contentFixtures begin with the plainest tool, which must stay the first.
var contentFixtures = []fixture{
	content("test_simple_text", "Return one block of text.",
		&mcp.TextContent{Text: "This is a simple text response for testing."}),
	content("test_image_content", "Return a picture, one red pixel as PNG.", redPixel()),
	content("test_audio_content", "Return a recording, a moment of silence as WAV.",
		&mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"}),
	content("test_embedded_resource", "Return a resource together with its text.",
		embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
	content("test_multiple_content_types", "Return text, a picture and a resource in one result.",
		&mcp.TextContent{Text: "Multiple content types test:"}, redPixel(),
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
	tool(server.Tool{
		Name: "test_error_handling", Description: "Fail, with an error that the model can read.",
	}, func(context.Context, *server.Call, none) (string, error) {
		return "", mcp.ToolErrorf("this tool fails intentionally, for testing")
	}),
}

// content returns a tool whose result always has the same blocks.
func content(name, description string, blocks ...mcp.Content) fixture {
	return tool(server.Tool{Name: name, Description: description},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: blocks}, nil
		})
}

func embedded(uri, mime, text string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: uri, MIMEType: mime, Text: text}}
}

func redPixel() *mcp.ImageContent {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a buffer takes every write
	}
	return &mcp.ImageContent{Data: b.Bytes(), MIMEType: "image/png"}
}

// silence returns 8 samples of nothing: mono, 8 bits, 8 kHz.
func silence() []byte {
	const rate, samples = 8000, 8
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, 36+samples)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)   // size of the format
	b = binary.LittleEndian.AppendUint16(b, 1)    // PCM
	b = binary.LittleEndian.AppendUint16(b, 1)    // channels
	b = binary.LittleEndian.AppendUint32(b, rate) // samples a second
	b = binary.LittleEndian.AppendUint32(b, rate) // bytes a second
	b = binary.LittleEndian.AppendUint16(b, 1)    // bytes of a frame
	b = binary.LittleEndian.AppendUint16(b, 8)    // bits of a sample
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, samples)
	return append(b, bytes.Repeat([]byte{128}, samples)...)
}
