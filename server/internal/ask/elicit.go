package ask

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// Elicit asks the user to fill a form, or to open a page.
func (d *Dialog) Elicit(key string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	form, err := d.Asker.forms.check(p)
	if err != nil {
		return nil, fmt.Errorf("server: question %q: %w", key, err)
	}
	var check checkContent
	if form != nil {
		check = func(content jsontext.Value) ([]schema.Fault, error) {
			return d.Asker.valid.Validate(d.Ctx, d.Core, form, 0, content)
		}
	}
	return d.elicit(key, *p, check)
}

// A checkContent returns what is wrong with the content of a form.
type checkContent func(jsontext.Value) ([]schema.Fault, error)

// elicit asks the user. check validates the content of a form; it is nil for a page.
func (d *Dialog) elicit(key string, p mcp.ElicitParams, check checkContent) (*mcp.ElicitResult, error) {
	need := mcp.ElicitationCapability{URL: &struct{}{}}
	page := p.ElicitationID
	p.ElicitationID = "" // clients of 2025-11-25 get it from package era
	if check != nil {
		need = mcp.ElicitationCapability{Form: &struct{}{}}
		p.Mode = "" // the default, which every revision knows
		page = ""
		if p.RequestedSchema == nil {
			p.RequestedSchema = emptyForm
		}
	}
	raw, err := d.Ask(key, mcp.ClientCapabilities{Elicitation: &need}, Question{
		InputRequest: mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: &p},
		page:         page,
		Check: func(raw jsontext.Value) error {
			r, err := decodeElicited(raw, check != nil)
			if err != nil || r.Content == nil {
				return err
			}
			faults, err := check(r.Content)
			if len(faults) > 0 {
				return fmt.Errorf("content: %s", faults[0])
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return decodeElicited(raw, check != nil)
}

// emptyForm has no fields: the user can only consent or decline.
var emptyForm = jsontext.Value(`{"type":"object","properties":{}}`)

// check returns an error for an elicitation that no client can show, else its form; nil for a
// page.
func (f *forms) check(p *mcp.ElicitParams) (*schema.Schema, error) {
	switch {
	case p == nil || p.Message == "":
		return nil, errors.New("an elicitation needs a message")
	case p.Mode == "" || p.Mode == mcp.ElicitForm:
		if p.URL != "" {
			return nil, errors.New("a form has no URL")
		}
		if p.RequestedSchema == nil {
			return f.parse(emptyForm)
		}
		return f.parse(p.RequestedSchema)
	case p.Mode != mcp.ElicitURL:
		return nil, fmt.Errorf("there is no elicitation mode %q", p.Mode)
	case p.RequestedSchema != nil:
		return nil, errors.New("a page has no schema")
	}
	page, err := url.Parse(p.URL)
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" {
		return nil, errors.New("the page must have an absolute http or https URL")
	}
	return nil, nil
}

// decodeElicited decodes the user's answer. Only an accepted form has content.
func decodeElicited(raw jsontext.Value, form bool) (*mcp.ElicitResult, error) {
	var r mcp.ElicitResult
	if err := wire.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	switch r.Action {
	case mcp.ElicitAccept:
		if form && r.Content == nil {
			r.Content = jsontext.Value("{}") // the form has no fields
		} else if !form {
			r.Content = nil
		}
	case mcp.ElicitDecline, mcp.ElicitCancel:
		r.Content = nil
	default:
		return nil, errors.New("the action is not known")
	}
	return &r, nil
}

// Sample asks the client's model.
func (d *Dialog) Sample(key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	if p == nil || len(p.Messages) == 0 || p.MaxTokens <= 0 {
		return nil, fmt.Errorf("server: question %q: sampling needs messages and a number of tokens", key)
	}
	need := mcp.SamplingCapability{}
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		need.Tools = &struct{}{}
	}
	if p.IncludeContext != "" && p.IncludeContext != "none" {
		need.Context = &struct{}{}
	}
	params := *p
	question := mcp.InputRequest{Method: mcp.MethodSamplingCreateMessage, Params: &params}
	return askFor(d, key, mcp.ClientCapabilities{Sampling: &need}, question, reflect.TypeFor[sampled](), decodeSampled)
}

// sampled is [mcp.CreateMessageResult] as far as its memory goes: the blocks take no more than values of type any do.
type sampled struct {
	Role       string   `json:"role"`
	Content    any      `json:"content"`
	Model      string   `json:"model"`
	StopReason string   `json:"stopReason"`
	Meta       mcp.Meta `json:"_meta"`
}

// askFor asks a question and decodes the answer. An answer that cannot be decoded, or takes too much memory, is asked for
// again. t is a type whose values take as much as T.
func askFor[T any](
	d *Dialog, key string, need mcp.ClientCapabilities, q mcp.InputRequest, t reflect.Type, decode func(jsontext.Value) (T, error),
) (answer T, err error) {
	bounded := func(raw jsontext.Value) (answer T, err error) {
		if err := d.Asker.valid.Fits(t, raw); err != nil {
			return answer, err
		}
		return decode(raw)
	}
	var checked checkedAnswer[T]
	raw, err := d.Ask(key, need, Question{InputRequest: q, Check: func(raw jsontext.Value) error {
		answer, err := bounded(raw)
		if err == nil {
			checked.keep(raw, answer)
		}
		return err
	}})
	if err != nil {
		return answer, err
	}
	if answer, known := checked.of(raw); known {
		return answer, nil
	}
	return bounded(raw)
}

func decodeSampled(raw jsontext.Value) (*mcp.CreateMessageResult, error) {
	var r mcp.CreateMessageResult
	if err := wire.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Role != mcp.RoleUser && r.Role != mcp.RoleAssistant || len(r.Content) == 0 || r.Model == "" {
		return nil, errors.New("a message has a role, content and the name of its model")
	}
	return &r, nil
}

// Roots asks the client for its roots.
func (d *Dialog) Roots(key string) ([]mcp.Root, error) {
	question := mcp.InputRequest{Method: mcp.MethodRootsList, Params: struct{}{}}
	return askFor(d, key, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, question, reflect.TypeFor[mcp.ListRootsResult](), decodeRoots)
}

func decodeRoots(raw jsontext.Value) ([]mcp.Root, error) {
	var r struct {
		Roots *[]mcp.Root `json:"roots"` // nil for null
	}
	err := wire.Unmarshal(raw, &r)
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && semantic.JSONPointer == "/roots" || err == nil && r.Roots == nil {
		return nil, errors.New("roots must be an array")
	}
	if err != nil {
		return nil, err
	}
	for _, root := range *r.Roots {
		if root.URI == "" {
			return nil, errors.New("a root has a URI")
		}
	}
	return *r.Roots, nil
}

// ElicitForm asks the user to fill a form that is inferred from T, and decodes what comes
// back.
func ElicitForm[T any](d *Dialog, key, message string) (value T, action mcp.ElicitAction, err error) {
	form, err := d.Asker.forms.of(reflect.TypeFor[T]())
	if err != nil {
		return value, "", fmt.Errorf("server: question %q: %w", key, err)
	}
	if message == "" {
		return value, "", fmt.Errorf("server: question %q: an elicitation needs a message", key)
	}
	into := func(content jsontext.Value, v *T) ([]schema.Fault, error) {
		return d.Asker.valid.Decode(d.Ctx, d.Core, form, 0, content, v)
	}
	check := func(content jsontext.Value) ([]schema.Fault, error) { return into(content, new(T)) }
	r, err := d.elicit(key, mcp.ElicitParams{Message: message, RequestedSchema: form.JSON()}, check)
	if err != nil {
		return value, "", err
	}
	if r.Action == mcp.ElicitAccept {
		faults, err := into(r.Content, &value)
		if len(faults) > 0 {
			return value, "", fmt.Errorf("server: question %q: %s", key, faults[0])
		}
		if err != nil {
			return value, "", err
		}
	}
	return value, r.Action, nil
}
