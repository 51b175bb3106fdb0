package framed_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A heavyPipe has no deadlines, and its Write needs some time to notice the Close.
type heavyPipe struct {
	io.Reader
	closed  chan struct{}
	takes   time.Duration
	writing atomic.Bool
}

func (p *heavyPipe) Write([]byte) (int, error) {
	p.writing.Store(true)
	defer p.writing.Store(false)
	<-p.closed
	time.Sleep(p.takes)
	return 0, io.ErrClosedPipe
}

func (p *heavyPipe) Close() error {
	close(p.closed)
	return nil
}

func (p *heavyPipe) SetWriteDeadline(time.Time) error { return errors.New("no deadlines") }

// After Serve the caller owns the pipe: nothing writes to it. If Close does not wake a blocked
// write, Serve still returns soon.
func TestNothingIsWrittenAfterServe(t *testing.T) {
	for _, tt := range []struct {
		takes    time.Duration
		obedient bool
	}{{50 * time.Millisecond, true}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, limits.Limits{EOFGrace: -1})
			p := &heavyPipe{Reader: strings.NewReader(modern(1, "echo") + "\n"), closed: make(chan struct{}), takes: tt.takes}
			begin := time.Now()
			require.NoError(t, framed.Serve(context.Background(), f.Core, transport.Lines(p)))
			require.Less(t, time.Since(begin), time.Second)
			require.Equal(t, tt.obedient, !p.writing.Load())
			require.Equal(t, tt.obedient, f.Core.Pending() == 0)
			time.Sleep(2 * time.Hour)
			require.EqualValues(t, 1, dropped(f.Conserved(), mcp.DropClosedWriter))
		})
	}
}
