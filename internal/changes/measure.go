package changes

// The names of what is looked at.
const (
	MeasureCalls        = "calls"
	MeasureErrors       = "errors"
	MeasureCancelled    = "cancellations"
	MeasureDropped      = "dropped answers"
	MeasureRejected     = "rejections"
	MeasureCallerErrors = "caller errors"
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

// A measure is a sum over calls. of returns it for the calls of one cell, and the number of calls that it
// is about.
type measure struct {
	name string
	kind kind
	// small is the part of a mean that does not count: a change from nothing to less than this is none.
	small float64
	// weight ranks the lines of measures that change at the same time.
	weight float64
	of     func(k *Key, c *Cell) (sum, calls float64)
}

func ended(outcomes ...string) func(k *Key, c *Cell) (sum, calls float64) {
	return func(k *Key, c *Cell) (sum, calls float64) {
		for _, outcome := range outcomes {
			if k.Outcome == outcome {
				sum = float64(c.Calls)
			}
		}
		return sum, float64(c.Calls)
	}
}

// spent is for sums of calls that were admitted.
func spent(sum func(c *Cell) uint64) func(k *Key, c *Cell) (float64, float64) {
	return func(k *Key, c *Cell) (float64, float64) {
		if k.Outcome == "rejected" || k.Outcome == OutcomeEnded {
			return 0, 0
		}
		return float64(sum(c)), float64(c.Calls)
	}
}

// answered is for sums of calls with a result.
func answered(sum func(c *Cell) uint64) func(k *Key, c *Cell) (float64, float64) {
	return func(k *Key, c *Cell) (float64, float64) {
		if k.Outcome != OutcomeAnswered {
			return 0, 0
		}
		return float64(sum(c)), float64(c.Calls)
	}
}

// The measures. A time is in microseconds, a logarithm in sixteenths of an octave.
var measures = []measure{
	{MeasureErrors, kindShare, 0, 1.2, ended("error", "panic")},
	{MeasureCancelled, kindShare, 0, 1.2, ended("cancelled", "abandoned")},
	{MeasureDropped, kindShare, 0, 1.2, ended("dropped")},
	{MeasureRejected, kindShare, 0, 1.1, ended("rejected")},
	{MeasureCallerErrors, kindShare, 0, 1.1, ended("caller_error")},
	{MeasureRunning, kindLog, 0, 1, spent(func(c *Cell) uint64 { return c.LogRunning })},
	{MeasureRunning, kindMean, 2_000, 1, spent(func(c *Cell) uint64 { return c.Running })},
	{MeasureQueued, kindMean, 20_000, 0.8, spent(func(c *Cell) uint64 { return c.Queued })},
	{MeasureBlocked, kindMean, 100_000, 1, spent(func(c *Cell) uint64 { return c.Blocked })},
	{MeasureWriting, kindMean, 20_000, 0.9, spent(func(c *Cell) uint64 { return c.Writing })},
	{MeasureAnswerBytes, kindLog, 0, 1.1, answered(func(c *Cell) uint64 { return c.LogAnswer })},
	{MeasureRequestBytes, kindMean, 256, 0.9, spent(func(c *Cell) uint64 { return c.RequestBytes })},
	{MeasureCalls, kindRate, 0, 0.6, func(_ *Key, c *Cell) (float64, float64) { return float64(c.Calls), float64(c.Calls) }},
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
