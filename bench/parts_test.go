package main

import (
	"bytes"
	"testing"

	pprof "github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// sampleOf returns a sample whose stack has these functions, the innermost first.
func sampleOf(value int64, functions ...string) *pprof.Sample {
	s := &pprof.Sample{Value: []int64{value}}
	for _, f := range functions {
		s.Location = append(s.Location, &pprof.Location{Line: []pprof.Line{{Function: &pprof.Function{Name: f}}}})
	}
	return s
}

func TestPartOf(t *testing.T) {
	const core = "github.com/vitrine-mcp/vitrine/internal/session.(*Core).admit"
	for name, tt := range map[string]struct {
		functions []string
		cpu, heap string
	}{
		"its own":      {[]string{core, "net/http.(*conn).serve"}, "internal/session", "internal/session"},
		"what it uses": {[]string{"runtime.mallocgc", "time.AfterFunc", core}, "internal/session", "internal/session"},
		"generic":      {[]string{"github.com/vitrine-mcp/vitrine/server.enterTool[go.shape.struct { Text string \"a.b/c\" }].func1", core}, "server, middleware", "server, middleware"},
		"a library":    {[]string{"github.com/prometheus/client_golang/prometheus.(*histogram).Observe", "github.com/vitrine-mcp/vitrine/telemetry.(*observer).Begin", core}, "telemetry", "telemetry"},
		"a write":      {[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "net.(*conn).Write", core}, partKernel, "net/http"},
		"garbage":      {[]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, partGarbage, partOther},
		"assisting":    {[]string{"runtime.scanobject", "runtime.gcAssistAlloc", "runtime.mallocgc", core}, partGarbage, "internal/session"},
		"sweeping":     {[]string{"runtime.sweepone", "runtime.bgsweep"}, partGarbage, partOther},
		"scheduling":   {[]string{"runtime.futex", "runtime.findRunnable", "runtime.mcall"}, partRuntime, partOther},
		"on its own":   {[]string{"runtime.futex", "sync.(*Mutex).Lock", "runtime.main"}, partOther, partOther},
		"elsewhere":    {[]string{"os/signal.loop"}, partOther, partOther},
		"no server's":  {[]string{"github.com/vitrine-mcp/vitrine/mcp.IntID", "main.main"}, partOther, partOther},
	} {
		require.Equal(t, tt.cpu, partOf(sampleOf(1, tt.functions...), true), name)
		require.Equal(t, tt.heap, partOf(sampleOf(1, tt.functions...), false), name)
	}
}

func TestShares(t *testing.T) {
	prof := &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}
	add := func(value int64, function string) {
		f := &pprof.Function{ID: uint64(len(prof.Function) + 1), Name: function}
		prof.Function = append(prof.Function, f)
		loc := &pprof.Location{ID: f.ID, Line: []pprof.Line{{Function: f}}}
		prof.Location = append(prof.Location, loc)
		prof.Sample = append(prof.Sample, &pprof.Sample{Value: []int64{value}, Location: []*pprof.Location{loc}})
	}
	encode := func() []byte {
		var b bytes.Buffer
		require.NoError(t, prof.Write(&b))
		return b.Bytes()
	}
	_, err := shares(encode(), "cpu", true)
	require.ErrorContains(t, err, "no sample of cpu")
	add(30, "net/http.readRequest")
	add(30, "net/textproto.readMIMEHeader")
	add(20, "runtime.futex")
	got, err := shares(encode(), "cpu", true)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"net/http": 0.75, partRuntime: 0.25}, got)
	_, err = shares(encode(), "alloc_objects", false)
	require.ErrorContains(t, err, "has no alloc_objects")
	_, err = shares([]byte("no profile"), "cpu", true)
	require.Error(t, err)
}
