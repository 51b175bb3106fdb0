package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// One at a time holds the lock, and time goes on for all of them.
func TestStoreLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock storeLock
		began, holders, done := time.Now(), 0, make(chan struct{})
		for range 10 {
			go func() {
				lock.Lock()
				holders++
				require.Equal(t, 1, holders)
				time.Sleep(time.Second)
				holders--
				lock.Unlock()
				done <- struct{}{}
			}()
		}
		for range 10 {
			<-done
		}
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}
