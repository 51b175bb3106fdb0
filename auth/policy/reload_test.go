package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

const (
	open   = "default: deny\nrules: [{name: all, effect: allow}]"
	closed = "default: deny\nrules: [{name: all, effect: allow, names: [other]}]"
	broken = "default: deny\nrules: [{name: all, effect: allow, when: principal.name}]"
)

// A policyFile is a file whose policy is reloaded. reloads are the calls of OnReload.
type policyFile struct {
	*testing.T
	path    string
	policy  *policy.Policy
	mu      sync.Mutex
	reloads []error
}

func newPolicyFile(t *testing.T, text string) *policyFile {
	f := &policyFile{T: t, path: filepath.Join(t.TempDir(), "policy.yaml")}
	f.write(text)
	p, err := policy.Open(f.path, policy.Config{OnReload: func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reloads = append(f.reloads, err)
	}})
	require.NoError(t, err)
	f.policy = p
	return f
}

// write replaces the file, as Kubernetes does with a mounted ConfigMap.
func (f *policyFile) write(text string) {
	require.NoError(f, os.WriteFile(f.path+".new", []byte(text), 0o600))
	require.NoError(f, os.Rename(f.path+".new", f.path))
}

func (f *policyFile) allows() bool {
	d := f.policy.Decide(f.Context(), nil, call("a", ""))
	return d.Passes()
}

func TestChangedFileIsUsed(t *testing.T) {
	f := newPolicyFile(t, open)
	require.True(t, f.allows())
	require.NoError(t, f.policy.Reload())
	require.Empty(t, f.reloads, "nothing has changed")
	f.write(closed)
	require.NoError(t, f.policy.Reload())
	require.False(t, f.allows())
	require.Equal(t, []error{nil}, f.reloads)
	stats := f.policy.Stats()
	require.Equal(t, uint64(1), stats.Reloads)
	require.Zero(t, stats.FailedReloads)
	require.Equal(t, uint64(1), stats.Rules[0].Decided, "the counters of a rule go on")
	require.Equal(t, uint64(1), stats.Rules[1].Decided)
}

func TestFileWithAMistakeKeepsTheRules(t *testing.T) {
	f := newPolicyFile(t, open)
	digest := f.policy.Stats().Digest
	f.write(broken)
	for range 3 {
		require.ErrorContains(t, f.policy.Reload(), "there is no variable principal.name")
	}
	require.True(t, f.allows())
	require.Len(t, f.reloads, 1, "a mistake is told once")
	stats := f.policy.Stats()
	require.ErrorContains(t, stats.ReloadError, "policy.yaml: line 2: rule all")
	require.Equal(t, uint64(1), stats.FailedReloads)
	require.Equal(t, digest, stats.Digest)

	require.NoError(t, os.Remove(f.path))
	require.ErrorIs(t, f.policy.Reload(), os.ErrNotExist)
	require.True(t, f.allows())
	f.write(broken)
	require.ErrorContains(t, f.policy.Reload(), "there is no variable principal.name")
	require.ErrorContains(t, f.policy.Stats().ReloadError, "there is no variable principal.name")
	f.write(open)
	require.NoError(t, f.policy.Reload())
	stats = f.policy.Stats()
	require.NoError(t, stats.ReloadError)
	require.Zero(t, stats.Reloads, "these rules were in use all the time")
	require.Equal(t, uint64(3), stats.FailedReloads)
	require.Len(t, f.reloads, 4)
	require.NoError(t, f.reloads[3])
}

func TestWatchReloadsUntilItsContextIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPolicyFile(t, open)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.policy.Watch(ctx)
		}()
		f.write(closed)
		require.True(t, f.allows())
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		require.False(t, f.allows())
		f.write(broken)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.False(t, f.allows())
		require.Len(t, f.reloads, 2)
		cancel()
		<-done
	})
}

// Each decision is made by the rules of one file.
func TestDecisionsWhileFilesChange(t *testing.T) {
	f := newPolicyFile(t, "default: deny\nrules: [{name: one, effect: allow, when: arguments.a == 1 && principal.subject == 'ann'}]")
	ann := &auth.Principal{Subject: "ann"}
	stop, failed := make(chan struct{}), make(chan error, 4)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d := f.policy.Decide(context.Background(), ann, call("a", `{"a": 1, "b": 2}`))
				if d.Effect != auth.Allow || d.Rule != "one" && d.Rule != "two" {
					select {
					case failed <- errors.New(d.Rule + " " + d.Effect.String()):
					default:
					}
				}
				f.policy.Decide(context.Background(), ann, listed("a"))
				f.policy.Stats()
			}
		})
	}
	for i := range 40 {
		name, argument := "one", "a == 1"
		if i%2 == 0 {
			name, argument = "two", "b == 2"
		}
		f.write("default: deny\nrules: [{name: " + name + ", effect: allow, when: arguments." + argument + "}]")
		require.NoError(t, f.policy.Reload())
	}
	close(stop)
	callers.Wait()
	require.Empty(t, failed)
}
