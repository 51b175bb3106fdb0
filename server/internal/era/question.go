package era

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

// Question returns a question in the form of a legacy revision. page is the ElicitationID of the
// page that it asks to open, or "".
func Question(v mcp.Version, q mcp.InputRequest, page string) (mcp.InputRequest, error) {
	var err error
	switch p := q.Params.(type) {
	case *mcp.ElicitParams:
		c := *p
		if c.Mode == mcp.ElicitURL {
			c.ElicitationID = cmp.Or(page, rand.Text())
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

// oldMessages returns one message for each block. Before 2025-11-25 a message has one block.
func oldMessages(v mcp.Version, messages []mcp.SamplingMessage) (list []mcp.SamplingMessage) {
	for _, m := range messages {
		for _, block := range m.Content {
			list = append(list, mcp.SamplingMessage{Role: m.Role, Content: mcp.ContentBlocks{downgradeBlock(v, block)}})
		}
	}
	return list
}

// errNewForm is the error for a form that the client's revision cannot express.
var errNewForm = fmt.Errorf("%w: choices of several in a form", mcp.ErrNotDeclared)

// oldForm rewrites a form for 2025-06-18. That revision has the titles of choices in enumNames,
// and defaults only for booleans. The properties keep their order.
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
