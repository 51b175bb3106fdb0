package observe

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// What a server has of its store reaches telemetry field by field: none is left out.
func TestStoreStateHasAllFields(t *testing.T) {
	state := storeState(&session.StoreInfo{
		Replica: "a", Away: time.Unix(1, 0), Operations: map[string]map[string]uint64{}, Took: map[string]time.Duration{},
		Signals: map[string]uint64{}, Missed: 1, TasksLost: 1, TasksTakenOver: 1, TasksFenced: 1, Fenced: 1, Evicts: true,
		Replicas: func(context.Context) []session.ReplicaInfo {
			return []session.ReplicaInfo{{
				Replica: "b", Host: "h", Process: 1, Version: "1", Started: time.Unix(1, 0), Draining: true, InFlight: 1, Sessions: 1, Tasks: 1, AwayFor: 1,
			}}
		},
	})
	require.Equal(t, reflect.TypeFor[session.StoreInfo]().NumField(), reflect.TypeOf(*state).NumField())
	for i := range reflect.TypeOf(*state).NumField() {
		require.False(t, reflect.ValueOf(*state).Field(i).IsZero(), reflect.TypeOf(*state).Field(i).Name)
	}
	other := state.Replicas(t.Context())[0]
	for i := range reflect.TypeOf(other).NumField() {
		require.False(t, reflect.ValueOf(other).Field(i).IsZero(), reflect.TypeOf(other).Field(i).Name)
	}
}
