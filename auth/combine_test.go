package auth_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// always decides the same, whatever it is asked.
func always(d auth.Decision) auth.Policy {
	return auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision { return d })
}

func TestStrictestPolicyDecides(t *testing.T) {
	broken := errors.New("broken")
	allow := auth.Decision{Effect: auth.Allow}
	open := auth.Decision{Effect: auth.Allow, Rule: "open"}
	staff := auth.Decision{Effect: auth.Allow, Rule: "staff"}
	deny := auth.Decision{Rule: "closed"}
	never := auth.Decision{Rule: "never"}
	read := auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"read"}, Rule: "read"}
	write := auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"write", "read"}, Rule: "write"}
	dry := func(d auth.Decision) auth.Decision { d.DryRun = true; return d }
	for name, c := range map[string]struct {
		asked  []auth.Decision
		want   auth.Decision
		passes bool
	}{
		"nobody is asked":                      {nil, allow, true},
		"all allow":                            {[]auth.Decision{allow, allow}, allow, true},
		"the last one with a rule":             {[]auth.Decision{open, staff, allow}, staff, true},
		"a deny wins":                          {[]auth.Decision{open, read, deny, never}, deny, false},
		"scopes are needed":                    {[]auth.Decision{open, read, staff}, read, false},
		"scopes are united":                    {[]auth.Decision{read, write}, auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"read", "write"}, Rule: "read"}, false},
		"the zero value denies":                {[]auth.Decision{{}}, auth.Decision{}, false},
		"an error denies":                      {[]auth.Decision{{Effect: auth.Allow, Err: broken}}, auth.Decision{Err: broken}, false},
		"an effect that does not exist denies": {[]auth.Decision{{Effect: 7}}, auth.Decision{}, false},
		"a dry run passes":                     {[]auth.Decision{open, dry(deny), staff}, dry(deny), true},
		"a dry run does not hide a deny":       {[]auth.Decision{dry(deny), never}, never, false},
		"a dry run does not hide a challenge":  {[]auth.Decision{dry(deny), read}, read, false},
		"the strictest dry run is told":        {[]auth.Decision{dry(read), dry(deny)}, dry(deny), true},
		"a dry run of scopes":                  {[]auth.Decision{dry(read), open}, dry(read), true},
	} {
		t.Run(name, func(t *testing.T) {
			var policies []auth.Policy
			for _, d := range c.asked {
				policies = append(policies, always(d))
			}
			got := auth.Combine(policies...).Decide(t.Context(), nil, &auth.Operation{})
			require.Equal(t, c.want, got)
			require.Equal(t, c.passes, got.Passes())
		})
	}
}

// A challenge names what the registration needs too, although the principal has that.
func TestChallengeOfAPolicyHasTheScopesOfTheOperation(t *testing.T) {
	combined := auth.Combine(auth.Scopes(nil), always(auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"payments"}}))
	op := &auth.Operation{Scopes: []string{"files:write"}}
	got := combined.Decide(t.Context(), &auth.Principal{Subject: "ann", Scopes: []string{"files:write"}}, op)
	require.Equal(t, auth.NeedScopes, got.Effect)
	require.Equal(t, []string{"payments", "files:write"}, got.Scopes)
	require.Equal(t, []string{"files:write"}, op.Scopes)
}

func TestPolicyThatPanicsDenies(t *testing.T) {
	got := auth.Combine(auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
		panic("no rules")
	})).Decide(t.Context(), nil, &auth.Operation{})
	require.Equal(t, auth.Deny, got.Effect)
	require.False(t, got.Passes())
	require.ErrorContains(t, got.Err, "no rules")
}

func TestEffectsHaveNames(t *testing.T) {
	for effect, name := range map[auth.Effect]string{auth.Deny: "deny", auth.Allow: "allow", auth.NeedScopes: "need_scopes", 9: "deny"} {
		require.Equal(t, name, effect.String())
	}
}
