package main

import (
	"context"
	"fmt"
	"os"

	"github.com/vitrine-mcp/vitrine/server"
)

// place is the output of the tool where.
type place struct {
	Replica string `json:"replica" jsonschema:"names the process that has served the call"`
	Session string `json:"session" jsonschema:"names the session of the call; empty if there is none"`
}

// whereFixture tells clients which process serves them.
func whereFixture(replica string) fixture {
	return tool(server.Tool{
		Name: "where", Description: "Tells which replica has served the call, and in which session.",
		Class: server.NewClass("where", 64), // so that the metrics of classes exist
	},
		func(_ context.Context, call *server.Call, _ none) (place, error) {
			return place{Replica: replica, Session: call.Peer.SessionID}, nil
		})
}

// replicaName names this process.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
