package e2e

import (
	"maps"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// requestsOf returns what is in flight at some servers, and their totals, as if they were one.
func requestsOf(all []*server) (*report, error) {
	sum := new(report)
	counts := func(to, from map[string]uint64) map[string]uint64 {
		to = maps.Clone(to)
		for name, n := range from {
			if to == nil {
				to = map[string]uint64{}
			}
			to[name] += n
		}
		return to
	}
	for _, s := range all {
		rep, err := s.requests()
		if err != nil {
			return nil, err
		}
		sum.Requests = append(sum.Requests, rep.Requests...)
		sum.Subscriptions = append(sum.Subscriptions, rep.Subscriptions...)
		sum.Sessions = append(sum.Sessions, rep.Sessions...)
		to, from := &sum.Totals, &rep.Totals
		to.Admitted += from.Admitted
		to.Sent += from.Sent
		to.Stored += from.Stored
		to.Panics += from.Panics
		to.Received = counts(to.Received, from.Received)
		to.Dropped = counts(to.Dropped, from.Dropped)
		to.Cancelled = counts(to.Cancelled, from.Cancelled)
		to.Rejected = counts(to.Rejected, from.Rejected)
		to.Abandoned = counts(to.Abandoned, from.Abandoned)
	}
	return sum, nil
}

// metricsOf returns the series of some servers, as if they were those of one.
func metricsOf(t *testing.T, all []*server) metrics {
	t.Helper()
	sum := metrics{}
	for _, s := range all {
		for name, family := range s.metrics(t) {
			if sum[name] == nil {
				sum[name] = &dto.MetricFamily{Name: family.Name, Type: family.Type}
			}
			sum[name].Metric = append(sum[name].Metric, family.GetMetric()...)
		}
	}
	return sum
}
