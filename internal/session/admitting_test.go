package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

type valueKey struct{}

// admitting returns the context for the rules of a request that has a minute, and what cancels the
// request.
func admitting(t *testing.T) (ctx *Admitting, cancel context.CancelCauseFunc) {
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "of the request"))
	r := &Request{ctx: parent}
	r.bounded.deadline = time.Now().Add(time.Minute)
	return r.Admitting(), cancel
}

// It ends as a context of the package context does, at whatever time something asks for its end.
func TestAdmittingEndsAsOtherContextsDo(t *testing.T) {
	gone := &mcp.CancelError{Cause: mcp.CauseClientDisconnect}
	for _, tt := range []struct {
		name       string
		end        func(*Admitting, context.CancelCauseFunc)
		err, cause error
	}{
		{"not at all", func(*Admitting, context.CancelCauseFunc) {}, nil, nil},
		{"a moment before the deadline", func(*Admitting, context.CancelCauseFunc) { time.Sleep(time.Minute - 1) }, nil, nil},
		{"at the deadline", func(*Admitting, context.CancelCauseFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, mcp.ErrDeadline},
		{"with the request", func(_ *Admitting, cancel context.CancelCauseFunc) { cancel(gone) }, context.Canceled, gone},
		{"when the rules were asked", func(a *Admitting, _ context.CancelCauseFunc) { a.End() }, context.Canceled, context.Canceled},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := admitting(t)
					defer cancel(nil)
					defer ctx.End()
					var derived context.Context
					if waits { // before the end
						var stop context.CancelFunc
						derived, stop = context.WithCancel(ctx)
						defer stop()
						require.NoError(t, ctx.Err())
					}
					tt.end(ctx, cancel)
					synctest.Wait()
					require.Equal(t, tt.cause, context.Cause(ctx))
					require.ErrorIs(t, ctx.Err(), tt.err)
					select {
					case <-ctx.Done():
						require.Error(t, tt.err)
					default:
						require.NoError(t, tt.err)
					}
					if waits {
						require.Equal(t, tt.cause, context.Cause(derived))
					}
				})
			})
		}
	}
}

// It has the deadline and the values of the request.
func TestAdmittingHasTheValuesOfTheRequest(t *testing.T) {
	ctx, cancel := admitting(t)
	defer cancel(nil)
	defer ctx.End()
	deadline, ok := ctx.Deadline()
	require.True(t, ok)
	require.Equal(t, ctx.deadline, deadline)
	require.Equal(t, "of the request", ctx.Value(valueKey{}))
}

// Rules that never wait cost one object, and no timer.
func TestRulesThatDoNotWaitCostOneObject(t *testing.T) {
	ctx, cancel := admitting(t)
	defer cancel(nil)
	r := &Request{ctx: ctx.Context}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		ctx := context.Context(r.Admitting())
		ctx.(*Admitting).End()
	}), 1.0)
}
