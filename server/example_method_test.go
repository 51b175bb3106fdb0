package server_test

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type tuneParams struct {
	Station string `json:"station"`
}

type tuneResult struct {
	MHz float64 `json:"mhz"`
}

// An extension with a method and a notification of its own.
func ExampleAddMethod() {
	const radio = "com.example/radio"
	srv := server.New("radio", "1.0.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddExtension(srv, server.Extension{ID: radio, Settings: map[string]int{"presets": 6}})
	server.AddMethod(srv, server.Method{Name: radio + "/tune", Extension: radio},
		func(_ context.Context, call *server.Call, in tuneParams) (tuneResult, error) {
			if err := call.Notify("notifications/"+radio+"/static", nil); err != nil {
				return tuneResult{}, err
			}
			return tuneResult{MHz: 93.6}, nil
		})

	t := newExampleT() // a test passes its own
	defer t.end()
	listener := servertest.Connect(t, srv, servertest.Extension(radio, nil),
		servertest.OnNotification(func(method string, _ jsontext.Value) { fmt.Println(method) }))
	tuned, err := listener.Call(context.Background(), radio+"/tune", tuneParams{Station: "rock"})
	var at tuneResult
	_ = json.Unmarshal(tuned, &at)
	fmt.Println(at.MHz, err)
	_, err = listener.Call(context.Background(), radio+"/tune", map[string]any{"volume": 11})
	fmt.Println(err)
	_, err = servertest.Connect(t, srv).Call(context.Background(), radio+"/tune", tuneParams{Station: "rock"})
	fmt.Println(err)

	// Output:
	// notifications/com.example/radio/static
	// 93.6 <nil>
	// params are not valid: missing required property "station"; unknown property "volume" (-32602)
	// the client must declare the extension com.example/radio (-32021)
}
