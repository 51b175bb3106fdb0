package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// Replica is the name of Vitrine as one of several replicas with a store, whose sessions have sealed ids.
const Replica = "vitrine-replica"

// Apart is the name of Vitrine as one of several processes that share nothing. It is called in the modern era, which has no
// sessions. It shows what of a difference between one process and several is due to the machine.
const Apart = "vitrine-apart"

func replicaKinds() []Kind {
	const module = "github.com/vitrine-mcp/vitrine"
	env := func(sink string) []string { return append(oneProcessor(sink), unsampled(sink)...) }
	return []Kind{
		{Name: "floor-replica", Title: "net/http + encoding/json", Env: oneProcessor, New: newFloor},
		{Name: Apart, Title: "Vitrine, modern, nothing shared", Module: module, Env: env, New: func(tools int) (Server, error) { return vitrine(tools) }},
		{Name: Replica, Title: "Vitrine, traces unsampled", Module: module, Env: env, New: newReplica},
	}
}

// Replicated returns the kinds of which there are several replicas: the floor and Vitrine without a store, and Vitrine with one.
func Replicated() []Kind { return named("floor-replica", Apart, Replica) }

// oneProcessor lets the Go scheduler of a replica use one processor. With more, a replica that has too little to
// do for all of them spends CPU time on looking for work, and several replicas do that several times.
func oneProcessor(string) []string { return []string{"GOMAXPROCS=1"} }

func newReplica(tools int) (Server, error) {
	store, err := redisstore.Open("redis://" + os.Getenv(RedisEnv) + "/0")
	if err != nil {
		return Server{}, err
	}
	key := sha256.Sum256([]byte(Replica)) // all replicas need the same one
	srv, err := server.TryNew("bench", "1", server.WithStateKeys(key[:]), server.WithStore(store.Store()))
	if err != nil {
		return Server{}, errors.Join(err, store.Close())
	}
	addTools(srv, tools)
	s, err := alone(srv)
	s.Close = func() error { return errors.Join(srv.Shutdown(context.Background()), store.Close()) }
	if err != nil {
		return Server{}, errors.Join(err, s.Close())
	}
	return s, nil
}
