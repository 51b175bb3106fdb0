package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestInterned checks that equal texts of different requests share memory, that an interned text does not
// hold the frame that it came from, and that the table is bounded.
func TestInterned(t *testing.T) {
	var table interned
	frame := strings.Repeat("x", 100) + "desk-agent"
	first, second := table.of(frame[100:]), table.of(strings.Clone("desk-agent"))
	require.Equal(t, "desk-agent", first)
	require.True(t, unsafe.StringData(first) == unsafe.StringData(second), "they have a copy each")
	require.False(t, unsafe.StringData(frame[100:]) == unsafe.StringData(first), "the frame is held")
	require.Empty(t, table.of(""))
	for i := range 3 * maxInterned {
		require.Equal(t, fmt.Sprint(i), table.of(fmt.Sprint(i)))
		require.LessOrEqual(t, len(table.texts), maxInterned)
	}
}

// TestRecordSize holds the size of what is kept of a request, without its own texts.
func TestRecordSize(t *testing.T) {
	const budget = 648
	if size := unsafe.Sizeof(record{}); size > budget {
		t.Errorf("a record has %d bytes; the budget is %d", size, budget)
	}
}
