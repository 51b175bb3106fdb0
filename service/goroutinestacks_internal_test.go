package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

const profileText = `goroutine profile: total 5
4 @ 0x1 0x2 0x3
# labels: {"mcp.method":"tools/call", "tool":"search"}
#	0x47b1	sync.runtime_SemacquireMutex+0x24	/go/src/runtime/sema.go:95
#	0x47b2	sync.(*Mutex).Lock+0x24	/go/src/sync/mutex.go:46
#	0x47b3	example.com/app/index.(*Index).Find+0x44	/src/app/index.go:12
#	0x47b4	main.main.func1+0x20	/src/app/main.go:20

1 @ 0x1 0x2
#	0x47b5	main.main+0x20	/src/app/main.go:30
#	0x47b6	runtime.main+0x20	/go/src/runtime/proc.go:283

`

const stacksText = `goroutine 1 [chan receive, 2 minutes, locked to thread]:
main.main()
	/src/app/main.go:30 +0x20

goroutine 7 [sync.Mutex.Lock, 5 minutes]:
sync.runtime_SemacquireMutex(0x1?, 0x2?)
	/go/src/runtime/sema.go:95 +0x25
sync.(*Mutex).Lock(...)
	/go/src/sync/mutex.go:46
example.com/app/index.(*Index).Find(0xc000, {0x1, 0x2})
	/src/app/index.go:12 +0x45
main.main.func1()
	/src/app/main.go:20 +0x20
created by main.main in goroutine 1
	/src/app/main.go:19 +0x44

goroutine 8 [sync.Mutex.Lock]:
sync.runtime_SemacquireMutex(0x1?, 0x2?)
	/go/src/runtime/sema.go:95 +0x25
sync.(*Mutex).Lock(...)
	/go/src/sync/mutex.go:46
example.com/app/index.(*Index).Find(0xc000, {0x1, 0x2})
	/src/app/index.go:12 +0x45
main.main.func1()
	/src/app/main.go:20 +0x20
`

func TestStacksTellTheLongestWait(t *testing.T) {
	waits := parseWaits(stacksText)
	var rows []report.GoroutineGroup
	for _, g := range parseGroups(profileText) {
		row := g.row(waits[g.key()])
		row.Stack = row.Stack[:1]
		rows = append(rows, row)
	}
	require.Equal(t, []report.GoroutineGroup{
		{
			Count: 4, Method: "tools/call", Tool: "search", State: "sync.Mutex.Lock", LongestWaitSeconds: 300,
			Blocking: "sync.(*Mutex).Lock mutex.go:46", Application: "example.com/app/index.(*Index).Find index.go:12",
			Stack: []string{"sync.runtime_SemacquireMutex /go/src/runtime/sema.go:95"},
		},
		{
			Count: 1, State: "chan receive", LongestWaitSeconds: 120, Blocking: "main.main main.go:30", Application: "main.main main.go:30",
			Stack: []string{"main.main /src/app/main.go:30"},
		},
	}, rows)
}

func TestFramesOfTheApplication(t *testing.T) {
	for function, want := range map[string]bool{
		"sync.(*Mutex).Lock": false, "net/http.(*conn).serve": false, "main.main.func1": true, "example.com/app.Run": true,
		"gopkg.in/yaml%2ev3.Unmarshal": true, ownModule + "server.(*Server).x": false, ownModule + "examples/shop.Buy": true,
		ownModule + "server_test.TestX": true,
	} {
		require.Equal(t, want, frame{function: function}.isApplication(), function)
	}
}
