package changes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quietRates are calls a second, without bursts.
var quietRates = []float64{0.05, 0.2, 0.5, 1.8, 5, 18}

// Two hours of ordinary traffic have no change, however few calls there are. Without -traffic the rates have few
// seeds, those that once had lines among them.
func TestLittleTrafficIsQuiet(t *testing.T) {
	seeds := []uint64{1, 11, 13, 23, 30}
	if *trafficFlag > 1 {
		seeds = nil
		for seed := range 6 * uint64(*trafficFlag) {
			seeds = append(seeds, seed)
		}
	}
	for _, rate := range quietRates {
		t.Run(fmt.Sprint(rate, " a second"), func(t *testing.T) {
			for _, seed := range seeds {
				tr := newTraffic(seed)
				tr.scale(rate)
				tr.run(0, 2*time.Hour)
				found := tr.find(2 * time.Hour)
				for i := range found {
					t.Errorf("seed %d: %.1f %s", seed, found[i].Score, found[i].Text(time.UTC))
				}
			}
		})
	}
}

// scale sets the calls a second of all flows together.
func (tr *traffic) scale(rate float64) {
	sum := 0.0
	for _, f := range tr.flows {
		sum += f.rate
	}
	for _, f := range tr.flows {
		f.rate *= rate / sum
	}
}

// Twelve minutes are enough before a plain change: a tool that takes eight times as long, or is called six times as
// often.
func TestShortHistoryHasPlainChanges(t *testing.T) {
	begins := 12 * time.Minute
	for measure, change := range map[string]func(tr *traffic){
		MeasureRunning: func(tr *traffic) {
			tr.change = func(o *Observation, at time.Duration) {
				if at >= begins && o.Target == "get_order" {
					o.Running *= 8
				}
			}
		},
		MeasureCalls: func(tr *traffic) {
			tr.extra = func(f *flow, at time.Duration) float64 {
				if at >= begins && f.client == "batch" {
					return 6
				}
				return 1
			}
		},
	} {
		t.Run(measure, func(t *testing.T) {
			for seed := range uint64(3) {
				tr := newTraffic(300 + seed)
				change(tr)
				tr.run(0, begins+7*time.Minute)
				found := tr.find(begins + 7*time.Minute)
				for i := range found {
					t.Logf("%.1f %s", found[i].Score, found[i].Text(time.UTC))
				}
				require.NotEmpty(t, found)
				require.Equal(t, measure, found[0].Measure)
			}
		})
	}
}
