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

// replicas measures a legacy call at one server behind a balancer, at two, and so on, for each kind of
// [servers.Replicated]. Those of Vitrine have one store, and sessions with sealed ids, which any of them
// opens.
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

// replicated returns the CPU time of a call at a number of replicas of Vitrine, as a multiple of that at one.
func replicated(n int) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		i := slices.IndexFunc(servers.Replicated(), func(k servers.Kind) bool { return k.Name == servers.Replica })
		if i >= len(r.scaled.replicas) || n > len(r.scaled.replicas[i]) {
			return 0, false
		}
		return ratios(r.scaled.replicas[i][n-1], r.scaled.replicas[i][0], cpuTimeOf).median, true
	}
}
