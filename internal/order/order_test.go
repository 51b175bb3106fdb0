package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByIsStable(t *testing.T) {
	type row struct {
		age  int
		name string
	}
	rows := []row{{2, "a"}, {1, "b"}, {2, "c"}, {3, "d"}, {1, "e"}}
	By(rows, func(a, b *row) bool { return a.age > b.age })
	require.Equal(t, []row{{3, "d"}, {2, "a"}, {2, "c"}, {1, "b"}, {1, "e"}}, rows)
}
