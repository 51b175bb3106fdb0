package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// timeout bounds one decision. An operation waits for it before it gets a slot.
const timeout = 500 * time.Millisecond

// maxAnswer bounds the answer of the decision point, in bytes.
const maxAnswer = 64 << 10

// A decisionPoint is a policy that asks an HTTP service, as Open Policy Agent offers it: the question is
// the member input of the request, the answer the member result of the response. Whatever goes wrong
// denies.
//
// It asks once for each operation and once for each item of a list, so the service should be near. Many
// items need a cache, or a question about many items at once.
type decisionPoint struct {
	url    string
	client *http.Client
}

func newDecisionPoint(url string) *decisionPoint {
	return &decisionPoint{url: url, client: &http.Client{
		Timeout: timeout,
		// Only the configured service decides.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
	}}
}

// question is what the decision point is asked. Arguments are absent if there are none, and if listed says
// that they are not known: the service denies what is listed only if it denies it for all arguments.
type question struct {
	Subject   string          `json:"subject"`
	Issuer    string          `json:"issuer"`
	Tenant    string          `json:"tenant"`
	Scopes    []string        `json:"scopes"`
	Method    string          `json:"method"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	URI       string          `json:"uri"`
	Listed    bool            `json:"listed"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Address   string          `json:"address"`
}

// answer is what it says. A service that knows nothing of the policy has no result.
type answer struct {
	Result *struct {
		Allow  bool   `json:"allow"`
		Reason string `json:"reason"`
	} `json:"result"`
}

// rule is the name of all decisions: what the service says is no label of metrics.
const rule = "decision_point"

// Decide implements auth.Policy.
func (d *decisionPoint) Decide(ctx context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
	q := question{
		Method: op.Method, Kind: op.Kind, Name: op.Name, URI: op.URI, Listed: op.Listed, Arguments: op.Arguments, Address: op.Address,
	}
	if p != nil {
		q.Subject, q.Issuer, q.Tenant, q.Scopes = p.Subject, p.Issuer, p.Tenant, p.Scopes
	}
	a, err := d.ask(ctx, q)
	switch {
	case err != nil:
		return auth.Decision{Effect: auth.Deny, Rule: rule, Err: err}
	case !a.Result.Allow:
		return auth.Decision{Effect: auth.Deny, Rule: rule, Reason: a.Result.Reason}
	}
	return auth.Decision{Effect: auth.Allow, Rule: rule, Reason: a.Result.Reason}
}

// ask asks the service.
func (d *decisionPoint) ask(ctx context.Context, q question) (*answer, error) {
	body, err := json.Marshal(map[string]question{"input": q})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the decision point answers %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("the decision point answers what is no decision: %w", err)
	}
	if a.Result == nil {
		return nil, fmt.Errorf("the decision point has no decision: is there a policy at %s?", d.url)
	}
	return &a, nil
}
