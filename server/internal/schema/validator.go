package schema

import (
	"context"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Validator validates values from outside within the limits of a server. It is safe for
// concurrent use.
type Validator struct {
	steps   int
	bytes   int
	decoded int         // bytes
	room    int         // bytes that one caller may have of all
	large   *share.Pool // of bytes of values
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
	v.steps, v.bytes = l.MaxValidationSteps, l.MaxValidationBytes
	v.decoded, v.room = l.MaxArgumentBytes, l.MaxArgumentBytesTotal/4*3 // see share.Bytes
	v.large = share.NewPool(v.bytes)
}

// Usage returns how many bytes of large values are validated just now, and how many callers have
// some or wait.
func (v *Validator) Usage() share.Usage { return v.large.Usage() }

// Largest returns how many bytes of large values that one of the callers has validated that has most, and
// which caller that is.
func (v *Validator) Largest(among []*share.Caller) (held int, of share.Key) {
	return v.large.Largest(among)
}

// A Sender is a message whose values are validated.
type Sender interface {
	// HoldCaller returns the record of the sender of the message, with a reference that its caller
	// must release.
	HoldCaller() *share.Caller
	// HoldValue charges the sender for a Go value of so many bytes until the result is released, which may be nil. It returns an
	// error if there is no room for the value.
	HoldValue(bytes int) (*share.Held, error)
}

// freeBytes is the size up to which a value need not wait.
const freeBytes = 64 << 10

// Validate is [Schema.Validate] in so many steps; 0 is what the limit of the server allows for a value
// of this size (see [StepsFor]). A value of more than 64 KiB waits while others take all bytes of the
// limit, and not behind those of a caller that has more (see [share.Pool]). An error that names a limit
// is an [*mcp.Error].
func (v *Validator) Validate(ctx context.Context, from Sender, s *Schema, steps int, raw jsontext.Value) (faults []Fault, err error) {
	err = v.within(ctx, from, s, steps, len(raw), func(steps int) (err error) {
		faults, err = s.Validate(ctx, steps, raw)
		return err
	})
	return faults, err
}

// Decode is [Schema.Decode] with the bounds of [Validator.Validate]. The value must have been weighed.
func (v *Validator) Decode(ctx context.Context, from Sender, s *Schema, steps int, raw jsontext.Value, into any) (faults []Fault, err error) {
	return v.decode(ctx, from, s, steps, raw, into, func() error { return nil })
}

// DecodeFor is [Validator.Decode] for a handler, which keeps the value while it runs. The value is weighed, and the sender is charged
// for that until held is released, which may be nil.
func (v *Validator) DecodeFor(ctx context.Context, from Sender, s *Schema, steps int, raw jsontext.Value, into any) (held *share.Held, faults []Fault, err error) {
	takes, err := v.weigh(reflect.TypeOf(into).Elem(), raw, 0, roughly)
	if err != nil {
		return nil, nil, err
	}
	var own *share.Held
	defer func() { own.Release() }() // a method of the type may panic
	faults, err = v.decode(ctx, from, s, steps, raw, into, func() (err error) {
		own, err = from.HoldValue(takes)
		return err
	})
	held, own = own, nil
	return held, faults, err
}

// decode calls begin before it decodes a value, when there is room to validate it.
func (v *Validator) decode(ctx context.Context, from Sender, s *Schema, steps int, raw jsontext.Value, into any, begin func() error) (faults []Fault, err error) {
	err = v.within(ctx, from, s, steps, len(raw), func(steps int) (err error) {
		if err := begin(); err != nil {
			return err
		}
		faults, err = s.Decode(ctx, steps, raw, into)
		return err
	})
	return faults, err
}

// Hold charges the sender of a text for the Go value of a type that is decoded from it without a schema, until held is released,
// which may be nil.
func (v *Validator) Hold(from Sender, t reflect.Type, text jsontext.Value) (held *share.Held, err error) {
	takes, err := v.weigh(t, text, 0, roughly)
	if err != nil {
		return nil, err
	}
	return from.HoldValue(takes)
}

// Weigh returns how many bytes the Go value of a type takes at most that is decoded from a text. It returns an error if that is
// more than is allowed beside what its handler has already. It is more exact than the others, for values that add up.
func (v *Validator) Weigh(t reflect.Type, text jsontext.Value, beside int) (takes int, err error) {
	return v.weigh(t, text, beside, exactly)
}

// weigh is Weigh that looks at the length of a text alone if that tells that its value takes no more than so many bytes.
func (v *Validator) weigh(t reflect.Type, text jsontext.Value, beside, roughly int) (takes int, err error) {
	most, limit := DecodedFor(v.decoded, len(text)), limits.NameArgumentBytes
	if room := max(v.room-beside, exactly); room < most {
		most, limit = room, limits.NameArgumentBytesTotal // of which one caller gets no more
	}
	takes, fits := extentOf(t).weigh(text, most, roughly)
	if !fits {
		v.reached(limit)
		if beside > 0 && limit == limits.NameArgumentBytesTotal {
			return 0, mcp.NewError(mcp.CodeInvalidParams, "the decoded value takes more than %d bytes of memory, which is all that %s leaves beside the %d bytes of the values before: send fewer items", most, limit, beside).
				WithData(mcp.ErrorData{Limit: limit})
		}
		return 0, mcp.NewError(mcp.CodeInvalidParams, "the decoded value takes more than %d bytes of memory, which is all that %s allows for a text of %d bytes: send fewer items", most, limit, len(text)).
			WithData(mcp.ErrorData{Limit: limit})
	}
	return takes, nil
}

// fullBytes is the size from which a value may take all steps of the limit.
const fullBytes = 3 << 20

// StepsFor returns how many steps of a limit a value of so many bytes may take: a share that grows with
// its size, from 1/768 (values of up to 4 KiB) to all (values of 3 MiB and more). So a small request
// cannot take the time that a large one needs. A large schema needs more for any value: up to 1/256,
// with 16 steps for each of its parts.
func StepsFor(limit, bytes, parts int) int {
	least := min(limit/768+16*parts, limit/256)
	return max(least, int(float64(limit)*min(float64(bytes)/fullBytes, 1)))
}

// wholeText is the size from which the Go value of a text may take all memory of the limit.
const wholeText = 1 << 20

// DecodedFor returns how many bytes of a limit the Go value of a text of so many bytes may take: a share
// that grows with the text, from 1/16 (up to 64 KiB) to all (1 MiB and more). Memory takes CPU time, and
// a small request should not cost what a large one may.
func DecodedFor(limit, text int) int {
	return int(float64(limit) * min(max(float64(text)/wholeText, 1./16), 1))
}

// Doubts returns what a schema has that can make the validation of small values reach the limit, for a
// tool with so many steps; 0 is the limit of the server.
func (v *Validator) Doubts(s *Schema, steps int) []string {
	if steps == 0 {
		steps = StepsFor(v.steps, 0, s.program.Parts())
	}
	return s.program.Doubts(steps)
}

// within calls validate, when there is room for a value of so many bytes.
func (v *Validator) within(ctx context.Context, from Sender, s *Schema, steps, bytes int, validate func(steps int) error) error {
	if bytes > freeBytes {
		room, caller := min(bytes, v.bytes), from.HoldCaller()
		defer caller.Release()
		if !v.large.TryAcquireN(caller, room) {
			v.reached(limits.NameValidationBytes)
			if err := v.large.AcquireN(ctx, caller, room); err != nil {
				return err
			}
		}
		defer v.large.ReleaseN(caller, room)
	}
	if steps == 0 {
		steps = StepsFor(v.steps, bytes, s.program.Parts())
	}
	err := validate(steps)
	if !errors.Is(err, ErrSteps) {
		return err
	}
	v.reached(limits.NameValidationSteps)
	return mcp.NewError(mcp.CodeInvalidParams, "validating the value takes more than %d steps, which is all that %s allows", steps, limits.NameValidationSteps).
		WithData(mcp.ErrorData{Limit: limits.NameValidationSteps})
}
