package schema

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Validator validates values from outside within the limits of a server. It is safe for
// concurrent use.
type Validator struct {
	steps   int
	bytes   int64
	decoded int // bytes
	large   *semaphore.Weighted
	held    atomic.Int64 // of large
	reached func(limit string)
}

// NewValidator returns a validator. It calls reached with the name of a limit that was reached.
func NewValidator(l limits.Limits, reached func(limit string)) *Validator {
	v := &Validator{reached: reached}
	v.SetLimits(l)
	return v
}

// SetLimits replaces the limits. It must be called before the first validation.
func (v *Validator) SetLimits(l limits.Limits) {
	v.steps, v.bytes = l.MaxValidationSteps, int64(l.MaxValidationBytes)
	v.decoded = l.MaxArgumentBytes
	v.large = semaphore.NewWeighted(v.bytes)
}

// Usage returns how many bytes of large values are validated just now.
func (v *Validator) Usage() share.Usage {
	return share.Usage{Size: int(v.bytes), Used: int(v.held.Load())}
}

// freeBytes is the size up to which a value need not wait.
const freeBytes = 64 << 10

// Validate is [Schema.Validate] in so many steps; 0 is what the limit of the server allows for a value
// of this size (see [StepsFor]). A value of more than 64 KiB waits while others take all bytes of the
// limit. An error that names a limit is an [*mcp.Error].
func (v *Validator) Validate(ctx context.Context, s *Schema, steps int, raw jsontext.Value) (faults []Fault, err error) {
	err = v.within(ctx, steps, len(raw), func(steps int) (err error) {
		faults, err = s.Validate(ctx, steps, raw)
		return err
	})
	return faults, err
}

// Decode is [Schema.Decode] with the bounds of [Validator.Validate], and one on the memory that the
// decoded value takes.
func (v *Validator) Decode(ctx context.Context, s *Schema, steps int, raw jsontext.Value, into any) (faults []Fault, err error) {
	if !extentOf(reflect.TypeOf(into).Elem()).within(raw, v.decoded) {
		v.reached(limits.NameArgumentBytes)
		return nil, mcp.NewError(mcp.CodeInvalidParams, "the decoded value takes more than %d bytes of memory, which is all that %s allows: send fewer items", v.decoded, limits.NameArgumentBytes).
			WithData(mcp.ErrorData{Limit: limits.NameArgumentBytes})
	}
	err = v.within(ctx, steps, len(raw), func(steps int) (err error) {
		faults, err = s.Decode(ctx, steps, raw, into)
		return err
	})
	return faults, err
}

// fullBytes is the size from which a value may take all steps of the limit.
const fullBytes = 2 << 20

// StepsFor returns how many steps of a limit a value of so many bytes may take: a share that grows with
// its size, from 1/256 (values of up to 8 KiB) to all (values of 2 MiB and more). So a small request
// cannot take the time that a large one needs.
func StepsFor(limit, bytes int) int {
	return int(float64(limit) * min(max(float64(bytes)/fullBytes, 1./256), 1))
}

// Doubts returns what a schema has that can make the validation of small values reach the limit, for a
// tool with so many steps; 0 is the limit of the server.
func (v *Validator) Doubts(s *Schema, steps int) []string {
	if steps == 0 {
		steps = StepsFor(v.steps, 0)
	}
	return s.program.Doubts(steps)
}

// within calls validate, when there is room for a value of so many bytes.
func (v *Validator) within(ctx context.Context, steps, bytes int, validate func(steps int) error) error {
	if bytes > freeBytes {
		room := min(int64(bytes), v.bytes)
		if !v.large.TryAcquire(room) {
			v.reached(limits.NameValidationBytes)
			if v.large.Acquire(ctx, room) != nil {
				return context.Cause(ctx)
			}
		}
		v.held.Add(room)
		defer func() {
			v.held.Add(-room)
			v.large.Release(room)
		}()
	}
	if steps == 0 {
		steps = StepsFor(v.steps, bytes)
	}
	err := validate(steps)
	if !errors.Is(err, ErrSteps) {
		return err
	}
	v.reached(limits.NameValidationSteps)
	return mcp.NewError(mcp.CodeInvalidParams, "validating the value takes more than %d steps, which is all that %s allows", steps, limits.NameValidationSteps).
		WithData(mcp.ErrorData{Limit: limits.NameValidationSteps})
}
