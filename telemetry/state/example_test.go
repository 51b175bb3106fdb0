package state_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// A licence is a limit of our own. Its metrics appear beside those of the server.
type licence struct{ seats, taken int }

// Snapshot implements [telemetry.Source].
func (l licence) Snapshot() *telemetry.Snapshot {
	return &telemetry.Snapshot{At: time.Now(), Shares: []state.Share{{Limit: "class:licence", Size: l.seats, Used: l.taken}}}
}

func ExampleShare() {
	tel, err := telemetry.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tel.AddSource(licence{seats: 10, taken: 3})()

	page := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.Contains(line, `="class:licence"`) {
			fmt.Print(line)
		}
	}
	// Output:
	// vitrine_share_callers{limit="class:licence",state="holding"} 0
	// vitrine_share_callers{limit="class:licence",state="waiting"} 0
	// vitrine_share_largest{limit="class:licence"} 0
	// vitrine_share_size{limit="class:licence"} 10
	// vitrine_share_used{limit="class:licence"} 3
}
