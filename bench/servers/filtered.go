package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/server"
)

// Filtered is the name of Vitrine with a policy that decides for each caller which tools its list has. One
// tool in eleven is hidden from the caller of the load, so that the list has as many tools as that of the others.
const Filtered = "vitrine-filtered"

const hiding = `
default: deny
rules:
  - name: hidden
    effect: deny
    names: ["hidden_*"]
    when: '!("tools:admin" in principal.scopes)'
  - name: staff
    effect: allow
    when: principal.tenant == "` + tenant + `"
`

func newFiltered(tools int) (s Server, err error) {
	var protection protection
	defer func() {
		if err != nil {
			err = errors.Join(err, protection.close())
		}
	}()
	opts, err := protection.options(remembered)
	if err != nil {
		return s, err
	}
	rules, err := policy.Parse([]byte(hiding), policy.Config{})
	if err != nil {
		return s, err
	}
	srv, err := server.TryNew("bench", "1", append(opts, server.WithPolicy(rules))...)
	if err != nil {
		return s, err
	}
	protection.closers = append(protection.closers, func() error { return srv.Shutdown(context.Background()) })
	addTools(srv, tools)
	for i := range tools / 10 {
		server.AddTool(srv, server.Tool{Name: fmt.Sprintf("hidden_%03d", i), Description: fillerDescription},
			func(context.Context, *server.Call, filler) (string, error) { return "", nil })
	}
	s, err = alone(srv)
	s.Close = protection.close
	return s, err
}
