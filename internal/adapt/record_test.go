package adapt

import (
	"context"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A record that waits does not keep the whole of a long id, which nothing counts.
func TestRecordsKeepTheStartOfAnIDOnly(t *testing.T) {
	sealed := strings.Repeat("x", 2000)
	require.Equal(t, "xxxxxxxx", shownOf(sealed))
	require.NotSame(t, unsafe.StringData(sealed), unsafe.StringData(shownOf(sealed)))
	require.Equal(t, "12345678", shownOf("123456789"))
	require.Equal(t, "1234", shownOf("1234"))
}

// The record of a completion names its prompt or template although another member has a wrong type.
func TestIllTypedMembersDoNotHideTheTargetOfARecord(t *testing.T) {
	for params, want := range map[string]string{
		`{"ref":{"type":"ref/prompt","name":"greet"}}`:         "greet",
		`{"ref":{"uri":5,"type":"ref/prompt","name":"greet"}}`: "greet",
		`{"ref":{"type":[],"uri":"note://{id}"}}`:              "note://{id}",
		`{"x":1,"x":2,"ref":{"name":"greet"}}`:                 "greet",
		`{"ref":5}`:                                            "",
	} {
		require.Equal(t, want, targetOf(&middleware.Request{Method: mcp.MethodCompletionComplete, Params: []byte(params)}), params)
	}
}

// A call that is served several times, because its handler asks the client something, takes the place of one record.
func TestACallReservesOnePlace(t *testing.T) {
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{nothing{}}, Strict: true, MaxRecords: 3})
	require.NoError(t, err)
	c := &Call{adapter: &Adapter{guard: guard{log: log}}}
	for range 10 {
		require.NoError(t, c.reserve())
	}
	log.AddReserved(audit.Record{})
	require.NoError(t, log.Close(context.Background()))
}

// nothing is a sink that forgets what is written.
type nothing struct{}

func (nothing) Name() string { return "nothing" }

func (nothing) Write(_ context.Context, entries []audit.Entry) (int, error) { return len(entries), nil }

func (nothing) Close() error { return nil }
