package framed_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fake = sessiontest.Fake

var (
	newFake            = sessiontest.New
	dropped            = sessiontest.Dropped
	modern, legacy     = sessiontest.Modern, sessiontest.Legacy
	answer, failure    = sessiontest.Answer, sessiontest.Failure
	batch, nullFailure = sessiontest.Batch, sessiontest.NullFailure
)

const (
	nothing    = `{"jsonrpc":"2.0","method":"notifications/x"}`
	response   = `{"jsonrpc":"2.0","id":"nobody","result":{}}`
	notAnArray = "a message must be a single object, not an array"
)

func call(id int, name string) string { return legacy(id, "tools/call", name) }
