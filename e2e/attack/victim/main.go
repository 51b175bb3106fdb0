// Command victim is the server that package attack attacks. Beside honest tools it has one tool
// for each kind of cost that a caller can choose. It takes the flags of every program that
// service.Run serves.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

func main() {
	var folder, auditPipe string
	var auditStrict bool
	var auditLog *audit.Log
	err := service.RunFunc(context.Background(), mcp.Implementation{Name: "victim", Version: "1.0.0"},
		func(_ context.Context, env *service.Env) (*server.Server, error) {
			var err error
			if auditLog, err = openAudit(auditPipe, auditStrict); err != nil {
				return nil, err
			}
			srv, err := env.NewServer(server.WithTasks(server.Tasks{}), server.WithAuthenticator(auth.AuthenticatorFunc(byName)),
				server.WithAudit(auditLog))
			if err != nil {
				return nil, err
			}
			addTools(srv)
			addCostlyTools(srv)
			addTemplates(srv)
			addHidden(srv)
			return srv, addFiles(srv, folder)
		},
		service.WithCommand("victim"),
		service.WithFlags(func(flags *flag.FlagSet) {
			flags.StringVar(&folder, "folder", "", "`folder` of the files that are resources")
			flags.StringVar(&auditPipe, "audit-pipe", "", "`path` of a pipe for the audit")
			flags.BoolVar(&auditStrict, "audit-pipe-strict", false, "refuse calls without a place for their record")
		}))
	closeAudit(auditLog)
	if err != nil {
		log.Fatal(err)
	}
}

// byName believes every caller its name: "Authorization: Bearer ann" is Ann. A caller without a
// name has no principal.
func byName(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	name, _ := strings.CutPrefix(http.Header(caller.Header).Get("Authorization"), "Bearer ")
	switch name {
	case "":
		return nil, nil
	case "mallory":
		return nil, &mcp.Refusal{Status: http.StatusUnauthorized, Reason: "token", By: "victim"}
	}
	return &auth.Principal{Subject: name}, nil
}

// addFiles makes resources of the files of a folder, out of which no link leads.
func addFiles(srv *server.Server, folder string) error {
	if folder == "" {
		return nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	return server.TryAddFiles(srv, server.Files{URI: "file:///docs/", Name: "docs", FS: root.FS()})
}
