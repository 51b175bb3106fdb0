package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func checkPrompts(t *testing.T, c *client) {
	listed := map[string]int{} // arguments by name
	for _, p := range c.must(t, "prompts", nil).Result.Prompts {
		listed[p.Name] = len(p.Arguments)
		if p.Description == "" {
			t.Errorf("prompt %q has no description", p.Name)
		}
	}
	for name, arguments := range map[string]int{
		"test_simple_prompt": 0, "test_prompt_with_arguments": 2, "test_prompt_with_embedded_resource": 1, "test_prompt_with_image": 0,
	} {
		if n, ok := listed[name]; !ok || n != arguments {
			t.Errorf("prompt %q is listed: %v, with %d arguments", name, ok, n)
		}
	}

	get := func(name string, arguments object) []content {
		t.Helper()
		get := object{"name": name}
		if arguments != nil {
			get["arguments"] = arguments
		}
		var all []content
		for _, m := range c.must(t, "prompt", get).Result.Messages {
			if m.Role != "user" {
				t.Errorf("prompt %s: a message of %q", name, m.Role)
			}
			all = append(all, m.Content)
		}
		if len(all) == 0 {
			t.Fatalf("prompt %s: no messages", name)
		}
		return all
	}
	if m := get("test_simple_prompt", nil); m[0].Text != "This is a simple prompt for testing." {
		t.Errorf("test_simple_prompt: %+v", m)
	}
	if m := get("test_prompt_with_arguments", object{"arg1": "eins", "arg2": "zwei “2”"}); !strings.Contains(m[0].Text, "eins") ||
		!strings.Contains(m[0].Text, "zwei “2”") {
		t.Errorf("test_prompt_with_arguments: %+v", m)
	}
	const uri = "test://example-resource"
	if m := get("test_prompt_with_embedded_resource", object{"resourceUri": uri}); m[0].Type != "resource" ||
		m[0].Resource.URI != uri || m[0].Resource.Text == "" {
		t.Errorf("test_prompt_with_embedded_resource: %+v", m)
	}
	if m := get("test_prompt_with_image", nil); m[0].Type != "image" || m[0].MIMEType != "image/png" || !isPNG(m[0].Data) {
		t.Errorf("test_prompt_with_image: %+v", m)
	}

	if r := c.do(t, "prompt", object{"name": "test_prompt_with_arguments", "arguments": object{"arg1": "eins"}}); r.code() != codeInvalidParams {
		t.Errorf("an argument is missing: %+v %+v", r.Result, r.Error)
	}
	if r := c.do(t, "prompt", object{"name": "no-such-prompt"}); r.code() != codeInvalidParams {
		t.Errorf("an unknown prompt: %+v %+v", r.Result, r.Error)
	}
}

func isPNG(data []byte) bool { return bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) }

func checkResources(t *testing.T, c *client) {
	var uris, templates []string
	for _, r := range c.must(t, "resources", nil).Result.Resources {
		uris = append(uris, r.URI)
	}
	for _, want := range []string{"test://static-text", "test://static-binary", watched} {
		if !slices.Contains(uris, want) {
			t.Errorf("no resource %q in the list %q", want, uris)
		}
	}
	for _, r := range c.must(t, "templates", nil).Result.ResourceTemplates {
		templates = append(templates, r.URITemplate)
	}
	if !slices.Contains(templates, "test://template/{id}/data") {
		t.Errorf("the templates are %q", templates)
	}

	read := func(uri string) contents {
		t.Helper()
		all := c.must(t, "read", object{"uri": uri}).Result.Contents
		if len(all) != 1 || all[0].URI != uri {
			t.Fatalf("%s: %+v", uri, all)
		}
		return all[0]
	}
	if r := read("test://static-text"); r.MIMEType != "text/plain" || r.Text == "" {
		t.Errorf("a text: %+v", r)
	}
	if r := read("test://static-binary"); r.MIMEType != "image/png" || !isPNG(r.Blob) {
		t.Errorf("a picture: %+v", r)
	}
	if r := read("test://template/4%2F2/data"); !strings.Contains(r.Text, `"4/2"`) {
		t.Errorf("of a template: %+v", r)
	}
	want := codeInvalidParams
	if !c.modern() && c.library != "client" { // which turns the old code into the new one
		want = codeResourceNotFound
	}
	if r := c.do(t, "read", object{"uri": "test://no-such-resource"}); r.code() != want {
		t.Errorf("an unknown resource: %+v %+v, want the code %d", r.Result, r.Error, want)
	}
}

func checkCompletion(t *testing.T, c *client) {
	complete := func(ref object, name, value string) []string {
		t.Helper()
		return c.must(t, "complete", object{"ref": ref, "argument": object{"name": name, "value": value}}).Result.Completion.Values
	}
	prompt := object{"type": "ref/prompt", "name": "test_prompt_with_arguments"}
	if got, want := complete(prompt, "arg1", "par"), []string{"paris", "party"}; !slices.Equal(got, want) {
		t.Errorf("an argument of a prompt: %q, want %q", got, want)
	}
	if got := complete(prompt, "arg2", "par"); len(got) > 0 {
		t.Errorf("an argument for which there is nothing: %q", got)
	}
	template := object{"type": "ref/resource", "uri": "test://template/{id}/data"}
	if got, want := complete(template, "id", "12"), []string{"12", "123"}; !slices.Equal(got, want) {
		t.Errorf("a variable of a template: %q, want %q", got, want)
	}
	r := c.do(t, "complete", object{"ref": object{"type": "ref/prompt", "name": "no-such-prompt"}, "argument": object{"name": "x", "value": ""}})
	if r.code() != codeInvalidParams {
		t.Errorf("an unknown prompt: %+v %+v", r.Result, r.Error)
	}
}
