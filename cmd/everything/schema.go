package main

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server"
)

// schemaFixtures are the tools that are about schemas.
var schemaFixtures = []fixture{
	tool(server.Tool{
		Name:        "json_schema_2020_12_tool",
		Description: "Take a contact whose schema uses the whole vocabulary of JSON Schema 2020-12.",
		InputSchema: jsontext.Value(contactSchema),
	}, func(_ context.Context, _ *server.Call, in contactInput) (string, error) {
		return "contact: " + in.Name + " in " + in.Address.City, nil
	}),
	tool(server.Tool{
		Name:        "test_x_mcp_header",
		Description: "Take a region that the client repeats in the header Mcp-Param-Region, so that a proxy can route by it.",
		InputSchema: jsontext.Value(headerSchema),
	}, func(_ context.Context, _ *server.Call, in headerInput) (string, error) {
		return "region: " + in.Region, nil
	}),
	tool(server.Tool{
		Name: "echo", Description: "Return the given text, as structured output.",
	}, func(_ context.Context, _ *server.Call, in echo) (echo, error) { return in, nil }),
}

// contactSchema uses the keywords that a server must pass on to the client as they
// were written.
const contactSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$defs": {
    "address": {
      "$anchor": "postal",
      "type": "object",
      "properties": {
        "street": {"type": "string"},
        "city": {"type": "string"}
      },
      "required": ["city"]
    }
  },
  "type": "object",
  "properties": {
    "name": {"type": "string", "minLength": 1},
    "address": {"$ref": "#postal"},
    "reach": {"enum": ["post", "mail"]},
    "mail": {"type": "string"}
  },
  "allOf": [
    {"anyOf": [{"required": ["address"]}, {"required": ["mail"]}, {"maxProperties": 0}]}
  ],
  "if": {"properties": {"reach": {"const": "mail"}}, "required": ["reach"]},
  "then": {"required": ["mail"]},
  "else": {"properties": {"mail": {"maxLength": 200}}},
  "additionalProperties": false
}`

type contactInput struct {
	Name    string `json:"name"`
	Address struct {
		Street string `json:"street"`
		City   string `json:"city"`
	} `json:"address"`
	Reach string `json:"reach"`
	Mail  string `json:"mail"`
}

const headerSchema = `{
  "type": "object",
  "properties": {
    "region": {"type": "string", "description": "Region, also sent as a header", "x-mcp-header": "Region"}
  },
  "additionalProperties": false
}`

type headerInput struct {
	Region string `json:"region"`
}

type echo struct {
	Text string `json:"text" jsonschema:"text to return"`
}
