package ask

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/share"
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
	var decode decodeContent[jsontext.Value]
	if form != nil {
		decode = func(content jsontext.Value) (jsontext.Value, *share.Held, error) {
			faults, err := d.Asker.valid.Validate(d.context(), d.Core, form, 0, content)
			return content, nil, contentFault(form, faults, err)
		}
	}
	answer, err := elicit(d, key, *p, decode)
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitResult{Action: answer.action, Content: answer.content}, nil
}

// A decodeContent decodes the content of a form, and returns what its value holds. With an error it holds nothing.
type decodeContent[T any] func(jsontext.Value) (content T, held *share.Held, err error)

// contentFault returns err, or an error for the first of the faults that the content of a form has.
func contentFault(form *schema.Schema, faults []schema.Fault, err error) error {
	if err != nil || len(faults) == 0 {
		return err
	}
	return answerFault{"content: " + faults[0].String(), "content: " + form.Discreet(faults[0])}
}

// An elicited is the user's answer. Only an accepted form has content.
type elicited[T any] struct {
	action  mcp.ElicitAction
	content T
}

// elicit asks the user. decode is nil for a page.
func elicit[T any](d *Dialog, key string, p mcp.ElicitParams, decode decodeContent[T]) (elicited[T], error) {
	need := mcp.ElicitationCapability{URL: &struct{}{}}
	page := p.ElicitationID
	p.ElicitationID = "" // clients of 2025-11-25 get it from package era
	if decode != nil {
		need = mcp.ElicitationCapability{Form: &struct{}{}}
		p.Mode = "" // the default, which every revision knows
		page = ""
		if p.RequestedSchema == nil {
			p.RequestedSchema = emptyForm
		}
	}
	question := Question{InputRequest: mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: &p}, page: page}
	return askFor(d, key, mcp.ClientCapabilities{Elicitation: &need}, question, func(raw jsontext.Value) (answer elicited[T], held *share.Held, err error) {
		r, err := decodeElicited(raw, decode != nil)
		if err != nil {
			return answer, nil, err
		}
		answer.action = r.Action
		if r.Content == nil {
			return answer, nil, nil
		}
		answer.content, held, err = decode(r.Content)
		return answer, held, err
	})
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
		return nil, answerFault{text: "the action is not known"}
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
	question := Question{InputRequest: mcp.InputRequest{Method: mcp.MethodSamplingCreateMessage, Params: &params}}
	return askFor(d, key, mcp.ClientCapabilities{Sampling: &need}, question, func(raw jsontext.Value) (r *mcp.CreateMessageResult, held *share.Held, err error) {
		held, err = d.weighed(reflect.TypeFor[sampled](), raw, func() error {
			r, err = decodeSampled(raw)
			return err
		})
		return r, held, err
	})
}

// sampled is [mcp.CreateMessageResult] as far as its memory goes: the blocks take no more than values of type any do.
type sampled struct {
	Role       string   `json:"role"`
	Content    any      `json:"content"`
	Model      string   `json:"model"`
	StopReason string   `json:"stopReason"`
	Meta       mcp.Meta `json:"_meta"`
}

func decodeSampled(raw jsontext.Value) (*mcp.CreateMessageResult, error) {
	var r mcp.CreateMessageResult
	if err := wire.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Role != mcp.RoleUser && r.Role != mcp.RoleAssistant || len(r.Content) == 0 || r.Model == "" {
		return nil, answerFault{text: "a message has a role, content and the name of its model"}
	}
	return &r, nil
}

// Roots asks the client for its roots.
func (d *Dialog) Roots(key string) ([]mcp.Root, error) {
	question := Question{InputRequest: mcp.InputRequest{Method: mcp.MethodRootsList, Params: struct{}{}}}
	return askFor(d, key, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, question, func(raw jsontext.Value) (roots []mcp.Root, held *share.Held, err error) {
		held, err = d.weighed(reflect.TypeFor[mcp.ListRootsResult](), raw, func() error {
			roots, err = decodeRoots(raw)
			return err
		})
		return roots, held, err
	})
}

func decodeRoots(raw jsontext.Value) ([]mcp.Root, error) {
	var r struct {
		Roots *[]mcp.Root `json:"roots"` // nil for null
	}
	err := wire.Unmarshal(raw, &r)
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && semantic.JSONPointer == "/roots" || err == nil && r.Roots == nil {
		return nil, answerFault{text: "roots must be an array"}
	}
	if err != nil {
		return nil, err
	}
	for _, root := range *r.Roots {
		if root.URI == "" {
			return nil, answerFault{text: "a root has a URI"}
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
	params := mcp.ElicitParams{Message: message, RequestedSchema: form.JSON()}
	answer, err := elicit(d, key, params, func(content jsontext.Value) (value T, held *share.Held, err error) {
		held, err = d.weighed(reflect.TypeFor[T](), content, func() error {
			faults, err := d.Asker.valid.Decode(d.context(), d.Core, form, 0, content, &value)
			return contentFault(form, faults, err)
		})
		return value, held, err
	})
	return answer.content, answer.action, err
}
