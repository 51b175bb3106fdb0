// Package limits has the limits, graces and time-outs of a server: their names, defaults and
// meaning.
package limits

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// Limits are the limits of one server. server.Limits has the same fields, with what they
// mean, and is converted to this type: the compiler holds the two together. The zero value
// of a field stands for its default; see [All].
type Limits struct {
	MaxMemory, ReservedBytes                                     int
	MaxFrameBytes, MaxDepth, MaxBatch                            int
	MaxInFlight, MaxInFlightTotal                                int
	MaxInFlightPerCaller, MaxInFlightControl                     int
	MaxQueue, MaxQueuePerSession, MaxQueueWait                   int
	MaxTurns                                                     int
	MaxUnread                                                    int
	MaxConnections                                               int
	MaxHeaders                                                   int
	MaxSessions, MaxDeletedSessions                              int
	MaxClientBytes                                               int
	MaxPendingSignals                                            int
	StoreTimeout                                                 time.Duration
	MaxSubscriptions, MaxResourceSubscriptions                   int
	MaxSubscribedBytes                                           int
	MaxPendingUpdates                                            int
	MaxListChanges                                               int
	MaxOutbound                                                  int
	MaxQueuedMessages, MaxQueuedBytes, MaxQueuedBytesTotal       int
	MaxEvents, MaxEventBytes, MaxEventBytesTotal                 int
	MaxBodyBytesPending                                          int
	MaxInputRounds, MaxStateBytes                                int
	MaxValidationSteps, MaxValidationBytes                       int
	MaxArgumentBytes, MaxArgumentBytesTotal                      int
	MaxRunningTasks, MaxTasks                                    int
	MaxTasksPerPrincipal, MaxTaskBytes                           int
	MaxTaskRuns                                                  int
	MaxAdminRequests, MaxProfiles                                int
	MaxProfileTime                                               time.Duration
	MaxRateBuckets                                               int
	MaxConsecutiveMalformed                                      int
	RequestTimeout, MaxRequestTimeout                            time.Duration
	BodyTimeout, WriteTimeout                                    time.Duration
	NotifyTimeout, CourtesyTimeout, EventTimeout                 time.Duration
	KeepAlive                                                    time.Duration
	OrphanGrace, EOFGrace, CleanupGrace, HookGrace, AbandonGrace time.Duration
	SaturationGrace                                              time.Duration
	SessionIdle, SessionLife                                     time.Duration
	PingInterval                                                 time.Duration
	PingMisses                                                   int
	TaskTTL, MaxTaskTTL, TaskGrace                               time.Duration
	StateTTL                                                     time.Duration
	InitializeTimeout                                            time.Duration
}

// WithDefaults returns the limits with the defaults for the fields that are zero. If there is a
// MaxMemory, the fields that bound memory follow from it.
func (l Limits) WithDefaults() Limits {
	if l.MaxMemory > 0 {
		l.fit()
	}
	for _, b := range All() {
		if field := b.Int(&l); field != nil && *field == 0 {
			*field = b.Default.(int)
		}
		if field := b.Duration(&l); field != nil && *field == 0 {
			*field = b.Default.(time.Duration)
		}
	}
	return l
}

// Check returns what is wrong with the limits: no limit may be negative, except for EOFGrace,
// OrphanGrace and SaturationGrace, and those that bound memory must fit into MaxMemory.
func (l Limits) Check() error {
	var errs []error
	for _, b := range All() {
		if field := b.Int(&l); field != nil && *field < 0 {
			errs = append(errs, fmt.Errorf("limit %s must not be negative, and is %d", b.Name, *field))
		}
		mayBeNegative := []*time.Duration{&l.EOFGrace, &l.OrphanGrace, &l.SaturationGrace}
		if field := b.Duration(&l); field != nil && *field < 0 && !slices.Contains(mayBeNegative, field) {
			errs = append(errs, fmt.Errorf("limit %s must not be negative, and is %v", b.Name, *field))
		}
	}
	if errs == nil {
		errs = append(errs, l.checkMemory())
	}
	return errors.Join(errs...)
}

// Wire returns the limits of the envelope codec.
func (l Limits) Wire() wire.Limits {
	return wire.Limits{MaxBytes: l.MaxFrameBytes, MaxDepth: l.MaxDepth, MaxBatch: l.MaxBatch}
}
