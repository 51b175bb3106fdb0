package changes

import "slices"

// The names of what is looked at.
const (
	MeasureCalls        = "calls"
	MeasureErrors       = "errors"
	MeasureCancelled    = "cancellations"
	MeasureDropped      = "dropped answers"
	MeasureRejected     = "rejections"
	MeasureCallerErrors = "caller errors"
	MeasureExpired      = "expired answers" // stored ones that were lost
	MeasureRunning      = "running time"
	MeasureQueued       = "queued time"
	MeasureBlocked      = "blocked time"
	MeasureWriting      = "writing time"
	MeasureAnswerBytes  = "answer bytes"
	MeasureRequestBytes = "request bytes"
)

// A kind says how a measure is compared.
type kind uint8

const (
	kindShare kind = iota // how many of the calls end in some way
	kindMean              // the mean of a sum per call
	kindLog               // the mean of a logarithm per call
	kindRate              // how many calls there are
)

// A measure is a sum over calls. of returns how to read it from the cells of a key, nil for one that adds
// nothing, and whether the measure is about the calls of the key.
type measure struct {
	name string
	kind kind
	// small is the part of a mean that does not count: a change from nothing to less than this is none.
	small float64
	// weight ranks the lines of measures that change at the same time.
	weight float64
	of     func(k *Key) (sum func(c *stepCell) float32, about bool)
}

func callsOf(c *stepCell) float32 { return c.calls }

// isCall reports whether the observations of a key are requests.
func (k *Key) isCall() bool { return k.Outcome != OutcomeExpired }

func ended(outcomes ...string) func(k *Key) (func(c *stepCell) float32, bool) {
	return func(k *Key) (func(c *stepCell) float32, bool) {
		if slices.Contains(outcomes, k.Outcome) {
			return callsOf, true
		}
		return nil, k.isCall()
	}
}

// lost is for stored answers that were lost. It is a share of the calls and these answers together: a client
// that has gone away loses answers and makes no calls.
func lost(k *Key) (func(c *stepCell) float32, bool) {
	if k.isCall() {
		return nil, true
	}
	return callsOf, true
}

// spent is for sums of calls that were admitted.
func spent(sum func(c *stepCell) float32) func(k *Key) (func(c *stepCell) float32, bool) {
	return func(k *Key) (func(c *stepCell) float32, bool) {
		if k.Outcome == "rejected" || k.Outcome == OutcomeEnded || !k.isCall() {
			return nil, false
		}
		return sum, true
	}
}

// answered is for sums of calls with a result.
func answered(sum func(c *stepCell) float32) func(k *Key) (func(c *stepCell) float32, bool) {
	return func(k *Key) (func(c *stepCell) float32, bool) {
		if k.Outcome != OutcomeAnswered {
			return nil, false
		}
		return sum, true
	}
}

// The measures. A time is in microseconds, a logarithm in sixteenths of an octave.
var measures = []measure{
	{MeasureErrors, kindShare, 0, 1.2, ended("error", "panic")},
	{MeasureCancelled, kindShare, 0, 1.2, ended("cancelled", "abandoned")},
	{MeasureDropped, kindShare, 0, 1.2, ended("dropped")},
	{MeasureRejected, kindShare, 0, 1.1, ended("rejected")},
	{MeasureCallerErrors, kindShare, 0, 1.1, ended("caller_error")},
	{MeasureExpired, kindShare, 0, 1.2, lost},
	{MeasureRunning, kindLog, 0, 1, spent(func(c *stepCell) float32 { return c.logRunning })},
	{MeasureRunning, kindMean, 2_000, 1, spent(func(c *stepCell) float32 { return c.running })},
	{MeasureQueued, kindMean, 20_000, 0.8, spent(func(c *stepCell) float32 { return c.queued })},
	{MeasureBlocked, kindMean, 100_000, 1, spent(func(c *stepCell) float32 { return c.blocked })},
	{MeasureWriting, kindMean, 20_000, 0.9, spent(func(c *stepCell) float32 { return c.writing })},
	{MeasureAnswerBytes, kindLog, 0, 1.1, answered(func(c *stepCell) float32 { return c.logAnswer })},
	{MeasureRequestBytes, kindMean, 256, 0.9, spent(func(c *stepCell) float32 { return c.requestBytes })},
	{MeasureCalls, kindRate, 0, 0.6, func(k *Key) (func(c *stepCell) float32, bool) { return callsOf, k.isCall() }},
}

// time reports whether the measure is a time. That calls take less time is no change: it follows from
// others.
func (m *measure) time() bool {
	switch m.name {
	case MeasureRunning, MeasureQueued, MeasureBlocked, MeasureWriting:
		return true
	}
	return false
}
