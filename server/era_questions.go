package server

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// What a client of each revision can be asked, and in which words.

// askable returns what the client can be asked: what it has declared, as its revision
// understands that.
func (c *Call) askable() mcp.ClientCapabilities {
	caps := c.Capabilities()
	v := c.Peer.Version
	if c.Peer.Era == mcp.Modern || v.AtLeast(mcp.Version20251125) {
		return caps
	}
	if caps.Sampling != nil { // without tools, and with a context for everybody
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

// notDeclared answers a request whose handler cannot do without what the client has
// not declared.
func (c *Call) notDeclared(err error) (mcp.Result, error) {
	required := missingIn(err)
	text := err.Error()
	data := mcp.MissingCapabilityData{RequiredCapabilities: required}
	switch {
	case c.Peer.Era == mcp.Modern:
		return nil, mcp.NewError(mcp.CodeMissingRequiredCapability, "%s", text).WithData(data)
	case c.Method == mcp.MethodToolsCall:
		return mcp.ToolErrorResult(text), nil
	}
	return nil, mcp.NewError(mcp.CodeInvalidRequest, "%s", text).WithData(data)
}

// missingIn adds up what the errors in a tree say is missing.
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

// wordQuestion puts a question into the words of a legacy revision.
func wordQuestion(v mcp.Version, asked question) (mcp.InputRequest, error) {
	var err error
	q := asked.InputRequest
	switch p := q.Params.(type) {
	case *mcp.ElicitParams:
		c := *p
		if c.Mode == mcp.ElicitURL {
			c.ElicitationID = cmp.Or(asked.page, rand.Text())
		} else if !v.AtLeast(mcp.Version20251125) {
			c.RequestedSchema, err = oldForm(c.RequestedSchema)
		}
		q.Params = &c
	case *mcp.CreateMessageParams:
		if !v.AtLeast(mcp.Version20251125) {
			c := *p
			c.Messages = oldMessages(v, c.Messages)
			q.Params = &c
		}
	}
	return q, err
}

// oldMessages gives each block a message of its own: before 2025-11-25 a message has
// one.
func oldMessages(v mcp.Version, messages []mcp.SamplingMessage) (list []mcp.SamplingMessage) {
	for _, m := range messages {
		for _, block := range m.Content {
			list = append(list, mcp.SamplingMessage{Role: m.Role, Content: mcp.ContentBlocks{downgradeBlock(v, block)}})
		}
	}
	return list
}

// errNewForm: the form needs more than the client's revision has.
var errNewForm = fmt.Errorf("%w: choices of several in a form", mcp.ErrNotDeclared)

// oldForm rewrites a form for 2025-06-18, which has the titles of choices in enumNames
// and defaults for booleans alone. The properties keep their order.
func oldForm(form jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(form, &members); err != nil {
		return nil, err
	}
	properties := []byte("{")
	dec := jsontext.NewDecoder(bytes.NewBuffer(members["properties"]))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if len(properties) > 1 {
			properties = append(properties, ',')
		}
		properties = append(append(properties, name...), ':')
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		property, err := oldProperty(value)
		if err != nil {
			return nil, err
		}
		properties = append(properties, property...)
	}
	members["properties"] = append(properties, '}')
	return wire.Marshal(nil, members)
}

func oldProperty(raw jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	switch string(members["type"]) {
	case `"array"`:
		return nil, errNewForm
	case `"boolean"`:
	default:
		delete(members, "default")
	}
	if titled := members["oneOf"]; titled != nil {
		var choices []struct {
			Const jsontext.Value `json:"const"`
			Title string         `json:"title"`
		}
		if err := json.Unmarshal(titled, &choices); err != nil {
			return nil, err
		}
		var values []jsontext.Value
		var titles []string
		for _, c := range choices {
			values, titles = append(values, c.Const), append(titles, c.Title)
		}
		var err1, err2 error
		members["enum"], err1 = wire.Marshal(nil, values)
		members["enumNames"], err2 = wire.Marshal(nil, titles)
		delete(members, "oneOf")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
	}
	return wire.Marshal(nil, members)
}
