// Opa asks an HTTP service for each decision, such as Open Policy Agent. With the policy
//
//	package mcp
//	decision := {"allow": allow}
//	default allow := false
//	allow if input.listed
//	allow if { input.name == "pay"; input.arguments.amount <= 1000 }
//
// and "opa run --server policy.rego" try it:
//
//	go run ./examples/opa
package main

import (
	"context"
	"log"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

type payIn struct {
	Amount int    `json:"amount" jsonschema:"in euros"`
	To     string `json:"to" jsonschema:"who gets it"`
}

func main() {
	if err := service.Run(context.Background(), newServer("http://127.0.0.1:8181/v1/data/mcp/decision")); err != nil {
		log.Fatal(err)
	}
}

// newServer returns a server whose decisions are made at a URL.
func newServer(url string) *server.Server {
	srv := server.New("bank", "1.0.0", server.WithPolicy(newDecisionPoint(url)))
	server.AddTool(srv, server.Tool{Name: "pay", Description: "Pay somebody"},
		func(_ context.Context, _ *server.Call, in payIn) (string, error) { return "paid " + in.To, nil })
	return srv
}
