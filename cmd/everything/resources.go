package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/vitrine-mcp/vitrine/server"
)

// watchedURI is the resource that the suite subscribes to.
const watchedURI = "test://watched-resource"

// dataTemplate is the resource template of the suite.
const dataTemplate = "test://template/{id}/data"

// addResources adds the resources of the conformance suite. The first one must be
// readable: the suite reads whatever comes first.
func addResources(srv *server.Server) {
	server.AddStaticResource(srv, server.Resource{
		URI: "test://static-text", Name: "static-text", Description: "A text that never changes.", MIMEType: "text/plain",
	}, "This is the content of the static text resource.")
	server.AddStaticResource(srv, server.Resource{
		URI: "test://static-binary", Name: "static-binary", Description: "A picture, one red pixel as PNG.", MIMEType: "image/png",
	}, redPixel().Data)
	server.AddStaticResource(srv, watchedResource, "Watched resource content.")
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: dataTemplate, Name: "template", Description: "Data of any id, as JSON.", MIMEType: "application/json",
		Complete: map[string]server.CompleteFunc{"id": server.CompleteFrom("1", "12", "123")},
	}, func(_ context.Context, _ *server.Call, _ string, vars map[string]string) (string, error) {
		return templateData(vars["id"])
	})
}

// watchedResource describes the resource that the suite subscribes to.
var watchedResource = server.Resource{
	URI: watchedURI, Name: "watched-resource", Description: "A text to subscribe to.", MIMEType: "text/plain",
}

// readWatchedFrom lets the content of the watched resource come from a file: other processes change it.
func readWatchedFrom(srv *server.Server, file string) {
	server.AddResource(srv, watchedResource, func(context.Context, *server.Call, string) (string, error) {
		text, err := os.ReadFile(file)
		return string(text), err
	})
}

// templateData returns the content that the suite expects for an id.
func templateData(id string) (string, error) {
	raw, err := json.Marshal(struct {
		ID           string `json:"id"`
		TemplateTest bool   `json:"templateTest"`
		Data         string `json:"data"`
	}{id, true, "Data for ID: " + id})
	return string(raw), err
}
