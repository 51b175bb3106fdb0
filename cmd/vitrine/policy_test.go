package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const bank = `default: deny
rules:
  - name: large-payments
    effect: deny
    names: [pay]
    when: arguments.amount > 1000 && !("payments:large" in principal.scopes)
    reason: too large
  - name: limit-42
    effect: deny
    dry_run: true
    when: principal.claims.limit == 9007199254740993
  - name: staff
    effect: allow
    when: principal.tenant == "bank"
`

func TestPolicyCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(good, []byte(bank), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("default: deny\nrules:\n  - name: a\n    effect: allow\n    when: principal.tenat == ''\n"), 0o600))
	for _, c := range []struct {
		file           string
		code           int
		stdout, stderr string
	}{
		{good, 0, good + ": 3 rules, and the default is deny\n", ""},
		{bad, 1, "", "vitrine: policy bad.yaml: line 5: rule a, character 1 of the expression: there is no variable principal.tenat, there are principal.issuer"},
		{filepath.Join(dir, "none.yaml"), 1, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := program(t, "policy", "check", c.file)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit status is looked at
		require.Equal(t, c.code, cmd.ProcessState.ExitCode())
		require.Equal(t, c.stdout, stdout.String())
		require.Contains(t, stderr.String(), c.stderr)
	}
}

func TestPolicyExplain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(bank), 0o600))
	ann := []string{"--subject=ann", "--tenant=bank", "--name=pay", "--claims={}"}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{append(ann, "--claims", `{"limit": 1}`, "--arguments", `{"amount": 1}`), `allow, by rule staff: principal.tenant == "bank"
  line 3   deny   large-payments  no match  
  line 12  allow  staff           match     
  line 8   deny   limit-42        no match  dry run
`},
		{append(ann, "--arguments", `{"amount": 1001}`, "--scopes=read,write"), "deny, by rule large-payments: too large\n  line 3  deny  large-payments  match  \n"},
		{append(ann, "--arguments", `{"amount": 1}`, "--claims", `{"limit": 9007199254740993}`), "deny, by rule limit-42: principal.claims.limit == 9007199254740993 (a dry run: the operation passes)\n"},
		{append(ann, "--arguments", `{}`), "rule large-payments, character 10 of the expression: no such key"},
		{append(ann, "--listed"), "unknown"},
		{[]string{"--kind=prompt", "--name=x"}, "deny, by rule default: no rule allows it\n"},
		{[]string{"--kind=", "--method=ping"}, "allow, because it is a method of the protocol\n"},
		{[]string{"--help"}, "usage: vitrine policy check"},
	} {
		var out bytes.Buffer
		require.NoError(t, policyCommand(&out, append(append([]string{"explain"}, c.flags...), file)))
		require.Contains(t, out.String(), c.want)
	}
	for text, args := range map[string][]string{
		"usage: vitrine policy check": {"explain"},
		"usage":                       {},
		"usage: ":                     {"check", "--strict"},
		"there is no kind":            {"explain", "--kind=tools", file},
		"--claims is no JSON object":  {"explain", "--claims=x", file},
		"not defined":                 {"explain", "--tool=x", file},
	} {
		require.ErrorContains(t, policyCommand(new(bytes.Buffer), args), text)
	}
}
