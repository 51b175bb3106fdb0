package limits

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the memory, all that callers can make the process hold fits into three quarters of
// it: a quarter is left to handlers and to garbage.
func TestLimitsFitIntoMemory(t *testing.T) {
	for mib := 192; mib <= 64<<10; mib += 96 {
		l := Limits{MaxMemory: mib << 20}
		require.NoError(t, l.Check(), "%d MiB", mib)
		l = l.WithDefaults()
		require.LessOrEqual(t, l.Memory(), l.MaxMemory/4*3, "%d MiB", mib)
		require.Greater(t, l.Memory(), l.MaxMemory/4*3-l.MaxMemory/16, "%d MiB are used", mib)
		for _, p := range Parts() {
			require.GreaterOrEqual(t, *boundOf(p.Limit).Int(&l), p.least(&l), "%s with %d MiB", p.Limit, mib)
			if !p.Scales {
				require.LessOrEqual(t, *boundOf(p.Limit).Int(&l), boundOf(p.Limit).Default.(int), "%s with %d MiB", p.Limit, mib)
			}
		}
	}
}

func TestExplicitLimitIsKept(t *testing.T) {
	l := Limits{MaxMemory: 1 << 30, MaxTaskBytes: 300 << 20, MaxSessions: 7}
	require.NoError(t, l.Check())
	fitted := l.WithDefaults()
	require.Equal(t, 300<<20, fitted.MaxTaskBytes)
	require.Equal(t, 7, fitted.MaxSessions)
	require.LessOrEqual(t, fitted.Memory(), fitted.MaxMemory/4*3)
	require.Equal(t, fitted, fitted.WithDefaults(), "defaults are set once")
}

func TestLimitsThatNeedMoreMemoryAreRefused(t *testing.T) {
	err := Limits{MaxMemory: 1 << 30, MaxTaskBytes: 900 << 20}.Check()
	require.ErrorContains(t, err, "max_memory is 1073741824")
	require.ErrorContains(t, err, "max_task_bytes (943718400)")

	err = Limits{MaxMemory: 512 << 20, MaxFrameBytes: 64 << 20}.Check()
	require.ErrorContains(t, err, "max_frame_bytes (67108864)", "the limits in bytes are twice as much at least")

	err = Limits{MaxMemory: 1 << 30, MaxConnections: math.MaxInt / 8}.Check()
	require.ErrorContains(t, err, "max_connections", "the sum is not too large for an integer")
}

// What the error says to raise max_memory to is enough, and a MiB less is not.
func TestAdviceAboutMemoryWorks(t *testing.T) {
	for _, l := range []Limits{
		{MaxMemory: 1},
		{MaxMemory: 32 << 20},
		{MaxMemory: 96 << 20},
		{MaxMemory: 157 << 20},
		{MaxMemory: 384 << 20, MaxConnections: 16_384},
		{MaxMemory: 512 << 20, MaxFrameBytes: 64 << 20},
		{MaxMemory: 512 << 20, ReservedBytes: 300 << 20},
		{MaxMemory: 1 << 30, MaxTaskBytes: 900 << 20, MaxSessions: 7},
	} {
		err := l.Check()
		require.Error(t, err)
		_, advice, found := strings.Cut(err.Error(), "raise it to ")
		require.True(t, found, err)
		var least int
		_, err = fmt.Sscanf(advice, "%d", &least)
		require.NoError(t, err)
		l.MaxMemory = least
		require.NoError(t, l.Check(), "with the value of the advice")
		l.MaxMemory -= 1 << 20
		require.Error(t, l.Check(), "the advice is more than needed")
	}
}

func TestDefaultsWithoutMemory(t *testing.T) {
	for _, p := range Parts() {
		l := Limits{}.WithDefaults()
		require.Equal(t, boundOf(p.Limit).Default, *boundOf(p.Limit).Int(&l), p.Limit)
	}
}

// The table of docs/limits.md has what each part takes: by default, and with 1 GiB.
func TestMemoryTable(t *testing.T) {
	byDefault, small := Limits{}.WithDefaults(), Limits{MaxMemory: 1 << 30}.WithDefaults()
	want := []string{"| part | limit | a unit takes | by default | with 1 GiB |", "|---|---|---|---|---|"}
	row := func(cells ...any) { want = append(want, fmt.Sprintf("| %v | %v | %v | %v | %v |", cells...)) }
	for _, p := range Parts() {
		row(p.Name, "`"+p.Limit+"`", bytesText(p.Cost), mib(byDefault.Bytes(p)), mib(small.Bytes(p)))
	}
	row("what the program keeps besides", "`reserved_bytes`", "1 byte", mib(byDefault.ReservedBytes), mib(small.ReservedBytes))
	row("the rest of the process", "", "", mib(FixedBytes), mib(FixedBytes))
	row("sum", "", "", mib(byDefault.Memory()), mib(small.Memory()))
	row("left to handlers and garbage", "", "", "", mib(small.MaxMemory-small.Memory()))
	requireTable(t, want)
}

func mib(n int) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func bytesText(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return strings.TrimSuffix(fmt.Sprintf("%d bytes", n), map[bool]string{true: "s"}[n == 1])
}

// docs/limits.md has the least max_memory, and the least container from which it follows.
func TestLeastMemoryIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	least := Limits{}.LeastMemory()
	want := fmt.Sprintf("The least limits need %d MiB, three quarters of a container of %d MiB.", least>>20, (least*4/3+1<<20-1)>>20)
	require.True(t, strings.Contains(strings.Join(strings.Fields(string(page)), " "), want), want)
}
