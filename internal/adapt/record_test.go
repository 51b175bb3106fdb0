package adapt

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A record that waits does not keep the whole of a long id, which nothing counts.
func TestRecordsKeepTheStartOfAnIDOnly(t *testing.T) {
	sealed := strings.Repeat("x", 2000)
	require.Equal(t, "xxxxxxxx", shownOf(sealed))
	require.NotSame(t, unsafe.StringData(sealed), unsafe.StringData(shownOf(sealed)))
	require.Equal(t, "12345678", shownOf("123456789"))
	require.Equal(t, "1234", shownOf("1234"))
}
