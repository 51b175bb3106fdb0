package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// completion is the members of the params of a completion/complete.
func completion(ref, argument string, more ...string) string {
	s := `"ref":` + ref + `,"argument":` + argument
	for _, m := range more {
		s += "," + m
	}
	return s
}

func promptRef(name string) string { return fmt.Sprintf(`{"type":"ref/prompt","name":%q}`, name) }

func resourceRef(uri string) string { return fmt.Sprintf(`{"type":"ref/resource","uri":%q}`, uri) }

func argument(name, value string) string {
	return fmt.Sprintf(`{"name":%q,"value":%q}`, name, value)
}

// addCompleters registers a prompt "p" and a template "x:{a}/{b}" whose argument a
// shows what its completer is called with.
func addCompleters(srv *server.Server) {
	show := func(_ context.Context, call *server.Call, value string, decided map[string]string) ([]string, error) {
		return []string{call.Method, value, fmt.Sprint(decided)}, nil
	}
	fail := func(err error) server.CompleteFunc {
		return func(context.Context, *server.Call, string, map[string]string) ([]string, error) { return nil, err }
	}
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{
		{Name: "a", Complete: show}, {Name: "plain"}, {Name: "none", Complete: fail(nil)},
		{Name: "many", Complete: server.CompleteFrom(many...)}, {Name: "full", Complete: server.CompleteFrom(many[:100]...)},
		{Name: "fails", Complete: fail(errors.New("secret"))}, {Name: "refuses", Complete: fail(mcp.NewError(-31000, "no"))},
	}}, say(""))
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "x:{a}/{b}", Name: "n", Complete: map[string]server.CompleteFunc{"a": show},
	}, echoVars)
	server.AddStaticResource(srv, server.Resource{URI: "x:direct", Name: "n"}, "")
}

func TestComplete(t *testing.T) {
	srv := newServer(t)
	addCompleters(srv)
	values := func(list string) string { return `"completion":{"values":[` + list + `]}` }
	numbers := ""
	for i := range 100 {
		numbers += fmt.Sprintf(`,"%d"`, i)
	}
	numbers = numbers[1:]
	const method, ref = "completion/complete", `params.ref.type must be "ref/prompt" or "ref/resource"`
	for _, tt := range []struct {
		name, params string
		want         string
		fault        string
	}{
		{"prompt", completion(promptRef("p"), argument("a", "x")), values(`"` + method + `","x","map[]"`), ""},
		{"decided", completion(promptRef("p"), argument("a", ""), `"context":{"arguments":{"b":"2","c":"3"}}`), values(`"` + method + `","","map[b:2 c:3]"`), ""},
		{"template", completion(resourceRef("x:{a}/{b}"), argument("a", "é"), `"context":{}`), values(`"` + method + `","é","map[]"`), ""},
		{"no completer", completion(promptRef("p"), argument("plain", "x")), values(""), ""},
		{"variable without a completer", completion(resourceRef("x:{a}/{b}"), argument("b", "x")), values(""), ""},
		{"nil values", completion(promptRef("p"), argument("none", "x")), values(""), ""},
		{"100 are all", completion(promptRef("p"), argument("full", "")), values(numbers), ""},
		{"150 are too many", completion(promptRef("p"), argument("many", "")), `"completion":{"values":[` + numbers + `],"total":150,"hasMore":true}`, ""},

		{"unknown prompt", completion(promptRef("nope"), argument("a", "")), "", `there is no prompt "nope"`},
		{"unknown template", completion(resourceRef("x:{nope}"), argument("a", "")), "", `there is no resource template "x:{nope}"`},
		{"a URI of the template", completion(resourceRef("x:1/2"), argument("a", "")), "", `there is no resource template "x:1/2"`},
		{"a resource has no arguments", completion(resourceRef("x:direct"), argument("a", "")), "", `there is no argument "a"`},
		{"unknown argument", completion(promptRef("p"), argument("nope", "")), "", `there is no argument "nope"`},
		{"unknown variable", completion(resourceRef("x:{a}/{b}"), argument("c", "")), "", `there is no argument "c"`},
		{"unknown type", completion(`{"type":"ref/tool","name":"p"}`, argument("a", "")), "", ref},
		{"no type", completion(`{"name":"p"}`, argument("a", "")), "", ref},
		{"no ref", `"argument":` + argument("a", ""), "", ref},
		{"no argument", `"ref":` + promptRef("p"), "", `there is no argument ""`},
		{"ill-typed", completion(`7`, argument("a", "")), "", "the params of completion/complete are not valid"},
		{"ill-typed value", completion(promptRef("p"), `{"name":"a","value":1}`), "", "the params of completion/complete are not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, old := result(1, tt.want+`,`+serverMeta), result(1, tt.want)
			if tt.fault != "" {
				want = failure(1, -32602, tt.fault)
				old = want
			}
			require.JSONEq(t, want, dial(t, srv).ask(modern(1, method, tt.params)))
			require.JSONEq(t, old, oldPipe(t, srv, mcp.Version20241105).ask(legacy(1, method, tt.params)))
		})
	}
	p := dial(t, srv)
	require.JSONEq(t, failure(1, -32603, "internal error"), p.ask(modern(1, method, completion(promptRef("p"), argument("fails", "")))))
	require.JSONEq(t, failure(1, -31000, "no"), p.ask(modern(1, method, completion(promptRef("p"), argument("refuses", "")))))
	require.JSONEq(t, failure(1, -32602, "the params of completion/complete are not valid"),
		oldPipe(t, srv, mcp.Version20251125).ask(`{"jsonrpc":"2.0","id":1,"method":"completion/complete"}`))
}

func TestCompleteFrom(t *testing.T) {
	srv := newServer(t)
	server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{
		{Name: "city", Complete: server.CompleteFrom("Zürich", "Bern", "Basel", "", "Ⱥb")}, // Ⱥ and ⱥ have 2 and 3 bytes
	}}, say(""))
	client := servertest.Connect(t, srv)
	for value, want := range map[string][]string{
		"": {"Zürich", "Bern", "Basel", "", "Ⱥb"}, "ⱥ": {"Ⱥb"}, "b": {"Bern", "Basel"}, "BE": {"Bern"}, "Bern": {"Bern"}, "Berne": {}, "zÜ": {"Zürich"},
		"z\xc3": {}, "Zürich, Bern, Basel": {},
	} {
		got, err := client.CompletePrompt(t.Context(), "p", "city", value, map[string]string{"country": "CH"})
		require.NoError(t, err)
		require.Equal(t, &mcp.Completion{Values: want}, got, value)
	}
}
