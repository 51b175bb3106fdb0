package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func ExampleAddResource() {
	srv := server.New("clock", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddStaticResource(srv, server.Resource{URI: "clock://help", Name: "help", MIMEType: "text/plain"}, "Ask me the time.")
	server.AddResource(srv, server.Resource{URI: "clock://now", Name: "now", MIMEType: "text/plain"},
		func(context.Context, *server.Call, string) (string, error) { return "half past nine", nil })

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	for _, uri := range []string{"clock://help", "clock://now"} {
		read, err := client.ReadResource(context.Background(), uri)
		fmt.Println(read.Contents[0].Text, err)
	}

	// Output:
	// Ask me the time. <nil>
	// half past nine <nil>
}

func ExampleAddResourceTemplate() {
	temperatures := map[string]string{"bern": "21", "zug": "19"}
	srv := server.New("weather", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "weather://{city}/today{?unit}",
		Name:        "weather",
		MIMEType:    "text/plain",
		Complete:    map[string]server.CompleteFunc{"city": server.CompleteFrom("bern", "zug")},
	}, func(_ context.Context, _ *server.Call, _ string, vars map[string]string) (string, error) {
		degrees, known := temperatures[vars["city"]]
		if !known {
			return "", server.ErrResourceNotFound
		}
		return degrees + " degrees " + vars["unit"], nil
	})

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	read, err := client.ReadResource(context.Background(), "weather://zug/today?unit=C")
	fmt.Println(read.Contents[0].Text, err)
	_, err = client.ReadResource(context.Background(), "weather://paris/today")
	fmt.Println(err)

	// Output:
	// 19 degrees C <nil>
	// there is no resource "weather://paris/today" (-32602)
}

// exampleT stands in for the *testing.T that an example does not have.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func newExampleT() *exampleT                          { return &exampleT{} }
func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) end() {
	for _, f := range t.cleanups {
		f()
	}
}
