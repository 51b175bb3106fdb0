package wire

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// deepFrames are as deep as jsontext allows, or broken after that depth.
func deepFrames() map[string]string {
	open, shut := strings.Repeat("[", 9_900), strings.Repeat("]", 9_900)
	return map[string]string{
		"arrays":                 `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + open + shut + `}}`,
		"objects":                `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 9_900) + `1` + strings.Repeat("}", 9_900) + `}`,
		"broken":                 `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + open,
		"broken before":          `{"jsonrpc":"2.0","id":x,"method":"ping","params":{"a":` + open + shut + `}}`,
		"not UTF-8 at its end":   `{"jsonrpc":"2.0","id":1,"method":"é","params":{"a":` + open + "\"\xff\"" + shut + `}}`,
		"a duplicate name early": `{"id":1,"id":2,"params":{"a":` + open + shut + `}}`,
	}
}

// A stack that has grown stays with its goroutine. So the depth of a message must not decide how
// large it is: many idle connections would keep the stacks of their last messages.
func TestDeepFrameDoesNotGrowTheStack(t *testing.T) {
	const readers = 64
	flat := stacksAfter(readers, func() { _, _ = Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), Limits{}) })
	for name, frame := range deepFrames() {
		t.Run(name, func(t *testing.T) {
			deep := stacksAfter(readers, func() {
				_, err := Decode([]byte(frame), Limits{})
				require.Error(t, err)
			})
			require.Less(t, deep, 4*flat+readers*(16<<10), "bytes of stacks; after flat messages %d", flat)
		})
		t.Run("in a batch, "+name, func(t *testing.T) {
			deep := stacksAfter(readers, func() { _, _ = SplitBatch([]byte("["+frame+"]"), Limits{}) })
			require.Less(t, deep, 4*flat+readers*(16<<10), "bytes of stacks; after flat messages %d", flat)
		})
	}
}

// stacksAfter returns the bytes that the stacks of goroutines take after each has called f.
func stacksAfter(goroutines int, f func()) uint64 {
	runtime.GC()
	before := stackBytes()
	var called, ended sync.WaitGroup
	called.Add(goroutines)
	release := make(chan struct{})
	for range goroutines {
		ended.Go(func() {
			f()
			called.Done()
			<-release
		})
	}
	called.Wait()
	after := stackBytes()
	close(release)
	ended.Wait()
	return max(after, before) - before
}

func stackBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// The id of a request is found behind what is too deep.
func TestDeepFrameIsAnsweredWithItsID(t *testing.T) {
	deep := strings.Repeat("[", 100) + `"]"` + strings.Repeat("]", 100)
	for _, frame := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":` + deep + `}`,
		`{"params":` + deep + `,"method":"ping","jsonrpc":"2.0","id":7}`,
	} {
		_, err := Decode([]byte(frame), Limits{})
		var bad *Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, ReasonTooDeep, bad.Reason)
		require.Equal(t, "7", bad.ID.Raw())
		require.Equal(t, Request, bad.Kind)
	}
}

// A member of a batch that is too deep does not affect the others.
func TestDeepMemberOfABatchIsOneMember(t *testing.T) {
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	members, err := SplitBatch([]byte(` [ {"a":1} ,`+deep+`, 2 ]`), Limits{})
	require.NoError(t, err)
	require.Len(t, members, 3)
	require.Equal(t, `{"a":1}`, string(members[0]))
	require.Equal(t, deep, string(members[1]))
	require.Equal(t, `2`, string(members[2]))
}
