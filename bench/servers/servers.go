// Package servers has the servers that bench compares. All of them have the same
// tools and give the same answers.
package servers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// The names under which the report looks servers up.
const (
	Floor    = "floor"
	Bare     = "bare"
	Promised = "floor-complete"  // by hand, with all promises of Vitrine
	Default  = "vitrine-default" // without any settings
)

// The names of the tools that are called. The others fill the list.
const (
	Echo  = "echo"  // answers with its argument text
	Steps = "steps" // reports progress [StepCount] times, and answers "done"
)

// StepCount is the number of progress notifications of the tool [Steps].
const StepCount = 10

// The paths of the HTTP endpoints. A server that serves both eras on one endpoint has
// the same handler under both.
const (
	Modern = "/modern"
	Legacy = "/legacy"
)

// A Server is a server ready to serve.
type Server struct {
	Modern http.Handler
	Legacy http.Handler
	// Stdio serves standard input and output until the input ends.
	Stdio func(ctx context.Context) error
	// Memory connects a client in the same process.
	Memory func() (Ask, error)
	// Change changes the list of tools, and Waiting returns the number of running calls of [Hold].
	// Only the [Scaled] kinds have them. One goroutine at a time may call Change.
	Change  func()
	Waiting *atomic.Int64
	// Serve listens by itself, serves [Modern] or [Legacy] and the handlers of others, and returns after the end of ctx. It calls
	// listening when clients can connect. May be nil; otherwise Modern and Legacy are.
	Serve func(ctx context.Context, others http.Handler, listening func(addr string) error) error
	// Close ends what the server needs beside itself. May be nil.
	Close func() error
}

// A Kind is a kind of server. Each runs in a process of its own.
type Kind struct {
	Name  string // in flags and results: one word
	Title string // in tables
	// Module is the path of the module whose version the report names, if not the
	// standard library's.
	Module string
	// Env returns the environment variables of the process. sink is the URL for OTLP traces.
	Env func(sink string) []string
	// Exports is the time within which the server exports its traces; 0 if it exports none.
	Exports time.Duration
	// Loses is true if the server may drop a progress notification right before the answer, which
	// the others must not do.
	Loses bool
	// Mended is true if the program must be built with the mended module.
	Mended bool
	// New makes the server with the given number of tools.
	New func(tools int) (Server, error)
}

// All returns all kinds, in the order of the tables.
func All() []Kind {
	const vitrine, mcpgo, gosdk = "github.com/vitrine-mcp/vitrine", "github.com/mark3labs/mcp-go", "github.com/modelcontextprotocol/go-sdk"
	return []Kind{
		{Name: Bare, Title: "bare echo", New: newBare},
		{Name: Floor, Title: "net/http + encoding/json", New: newFloor},
		{Name: "vitrine", Title: "Vitrine, traces unsampled", Module: vitrine, Env: unsampled, New: newVitrine},
		{Name: "vitrine-sampled", Title: "Vitrine, 10 % sampled and exported", Module: vitrine, Env: sampled, Exports: exported, New: newVitrine},
		{Name: Default, Title: "Vitrine, default", Module: vitrine, New: newVitrine},
		{Name: "vitrine-off", Title: "Vitrine, telemetry off", Module: vitrine, New: newVitrineOff},
		{Name: "mcpgo", Title: "mcp-go", Module: mcpgo, Loses: true, New: newMCPGo},
		{Name: "mcpgo-validating", Title: "mcp-go with validation", Module: mcpgo, Loses: true, New: newMCPGoValidating},
		{Name: "gosdk", Title: "Go SDK", Module: gosdk, New: newGoSDK},
		{Name: "gosdk-mended", Title: "Go SDK, decoder mended", Module: gosdk, Mended: true, New: newGoSDK},
	}
}

// Relaxed returns the floor and Vitrine, each followed by itself with fewer runs of the
// garbage collector.
func Relaxed() (kinds []Kind) {
	for _, name := range []string{Floor, "vitrine"} {
		k, _ := Find(name) // it exists
		env := k.Env
		relaxed := k
		relaxed.Env = func(sink string) []string {
			vars := []string{"GOGC=1000"}
			if env != nil {
				vars = append(vars, env(sink)...)
			}
			return vars
		}
		kinds = append(kinds, k, relaxed)
	}
	return kinds
}

// Find returns the kind of that name.
func Find(name string) (Kind, error) {
	for _, k := range slices.Concat(All(), scaleKinds(), promisingKinds(), protectedKinds(), serviceKinds(), shopKinds()) {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no server %q", name)
}

// text is the input of [Echo].
type text struct {
	Text string `json:"text"`
}

// none is the input of [Steps].
type none struct{}

// filler is the input of the tools that fill the list.
type filler struct {
	City     string   `json:"city" jsonschema:"the city, in English"`
	Country  string   `json:"country,omitempty" jsonschema:"ISO 3166-1, two letters"`
	Days     int      `json:"days" jsonschema:"how many days ahead"`
	Metric   bool     `json:"metric,omitempty" jsonschema:"degrees Celsius"`
	Hours    []string `json:"hours,omitempty" jsonschema:"the hours of interest"`
	Altitude float64  `json:"altitude,omitempty" jsonschema:"metres above the sea"`
}

const (
	echoDescription   = "Answers with its text."
	stepsDescription  = "Reports progress, and is done."
	fillerDescription = "Forecast for a city: temperature, wind and rain, for each of the given hours."
)

// fillers returns the names of the tools beside [Echo] and [Steps].
func fillers(tools int) []string {
	names := make([]string, max(0, tools-2))
	for i := range names {
		names[i] = fmt.Sprintf("forecast_%03d", i)
	}
	return names
}
