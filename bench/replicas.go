package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// callersOfReplicas are so many that each replica has work to do: an idle process spends CPU time on
// falling asleep and waking up.
const callersOfReplicas = 64

// replicas measures a call at one server behind a balancer, at two, and so on, for each kind of
// [servers.Replicated]: a legacy call, but a modern one for [servers.Apart]. Those of [servers.Replica] have one store, and sessions
// with sealed ids, which any of them opens.
func (p plan) replicas(programs programs, sink string) (results [][][]sample, err error) {
	redis, err := startRedis()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()
	var all contest
	var balancers []*balancer
	defer func() {
		err = errors.Join(err, all.stop())
		for _, b := range balancers {
			err = errors.Join(err, b.stop())
		}
	}()
	s := scenario{kind: call, legacy: true, size: small, tools: fewTools, callers: callersOfReplicas, backends: redis.addresses}
	for _, kind := range servers.Replicated() {
		s.legacy = kind.Name != servers.Apart
		for n := range p.scale.replicas {
			b, err := all.enterReplicas(programs.of(kind), kind, n+1, s, sink, p.slice)
			if b != nil {
				balancers = append(balancers, b)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	samples, err := all.measure(goalRounds*p.rounds, p.slice)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(samples, p.scale.replicas) {
		results = append(results, some)
	}
	return results, p.profile(p.scale.replicasName(), all)
}

// enterReplicas adds n replicas of a server behind a balancer, which it returns.
func (c *contest) enterReplicas(exe string, kind servers.Kind, n int, s scenario, sink string, slice time.Duration) (*balancer, error) {
	name := fmt.Sprintf("%s-%d", kind.Name, n)
	*c = append(*c, contender{name: name})
	last := &(*c)[len(*c)-1]
	var addrs []string
	for range n {
		process, err := start(exe, kind, s, sink)
		if err != nil {
			return nil, err
		}
		last.fleet = append(last.fleet, process)
		addrs = append(addrs, process.addr)
	}
	b, err := startBalancer(addrs)
	if err != nil {
		return nil, err
	}
	l, err := newHTTPLoad(s, render(s), b.addr)
	if err == nil {
		err = c.ready(l, slice)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return b, err
}

// behindNginx writes the table of the replicas.
func (s scaleResult) behindNginx(b *strings.Builder) {
	row := head(b, "server", "replicas", "CPU µs of a call, all replicas", "× one replica", "allocations", "KB allocated", "answers/s", "p50", "p99")
	for i, k := range servers.Replicated() {
		for n, samples := range s.replicas[i] {
			row(slices.Concat([]string{k.Title, fmt.Sprint(n + 1)}, costs(samples, s.replicas[i][0]), speeds(samples))...)
		}
	}
}

// replicated returns the CPU time of a call at a number of replicas of Vitrine, as a multiple of that at one. It is divided by the
// same multiple for processes that share nothing.
func replicated(n int) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		at := func(name string) int {
			return slices.IndexFunc(servers.Replicated(), func(k servers.Kind) bool { return k.Name == name })
		}
		replica, apart := at(servers.Replica), at(servers.Apart)
		if max(replica, apart) >= len(r.scaled.replicas) || n > len(r.scaled.replicas[replica]) {
			return 0, false
		}
		shared, alone := r.scaled.replicas[replica], r.scaled.replicas[apart]
		values := make([]float64, len(shared[0]))
		for i := range values {
			times := func(samples [][]sample) float64 {
				return float64(cpuTimeOf(samples[n-1][i])) / float64(cpuTimeOf(samples[0][i]))
			}
			values[i] = times(shared) / times(alone)
		}
		return spreadOfValues(values).median, true
	}
}
