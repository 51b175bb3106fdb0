package session

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// Values are charged to their senders until they are released, and refused if there is no room, unless the work begins again.
func TestHoldValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, limits.Limits{MaxArgumentBytesTotal: 100 << 10})
		testHoldValue(t, w)
		w.end()
	})
}

func testHoldValue(t *testing.T, w *world) {
	in := &Inbound{Conn: &Conn{RemoteAddr: "192.0.2.1:1"}}
	small, err := w.core.HoldValue(in, nil, freeValue)
	require.NoError(t, err)
	require.Nil(t, small)
	small.Release()

	most, err := w.core.HoldValue(in, nil, 75<<10)
	require.NoError(t, err)
	require.Equal(t, 75<<10, w.core.values.Usage().Used)
	_, err = w.core.HoldValue(in, nil, 10<<10)
	require.Equal(t, Overload(limits.NameArgumentBytesTotal), err)
	other, err := w.core.HoldValue(&Inbound{Conn: &Conn{RemoteAddr: "192.0.2.2:1"}}, nil, 6<<10)
	require.NoError(t, err, "a quarter is for others")
	r := &Request{Inbound: restartedCall("work")}
	r.core = w.core
	again, err := r.HoldValue(90 << 10)
	require.NoError(t, err)
	require.Nil(t, again)
	_, err = r.HoldAnswer(90 << 10)
	require.Equal(t, Overload(limits.NameArgumentBytesTotal), err, "it was not accepted before")
	most.Release()
	other.Release()
	require.Zero(t, w.core.values.Usage().Used)
}
