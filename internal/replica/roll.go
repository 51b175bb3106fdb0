package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
)

// maxReplicas bounds a list of replicas.
const maxReplicas = 1000

// A rollSignal asks all replicas what they say of themselves, or is an answer.
type rollSignal struct {
	ID     string               `json:"id"` // of the question
	Answer *session.ReplicaInfo `json:"answer,omitempty"`
}

// rolls are the questions of this replica that wait for answers. The zero value has none.
type rolls struct {
	mu   sync.Mutex // guards the rest
	open map[string][]session.ReplicaInfo
}

func (r *rolls) begin(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[string][]session.ReplicaInfo{}
	}
	r.open[id] = nil
}

// take adds an answer, and reports whether its question is open.
func (r *rolls) take(id string, answer session.ReplicaInfo) (open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, open := r.open[id]
	if open && len(all) < maxReplicas {
		r.open[id] = append(all, answer)
	}
	return open
}

func (r *rolls) end(id string) []session.ReplicaInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.open[id]
	delete(r.open, id)
	return all
}

// Replicas asks all replicas what they say of themselves, and waits for twice the deadline of the store or
// until ctx ends. The list begins with this replica, and is sorted by their start. Replicas of a release
// that does not know the question do not answer it.
func (l *Link) Replicas(ctx context.Context) []session.ReplicaInfo {
	id := rand.Text()
	l.rolls.begin(id)
	if l.say(ctx, changesChannel, envelope{Roll: &rollSignal{ID: id}}) == nil {
		select {
		case <-time.After(2 * l.Timeout):
		case <-ctx.Done():
		case <-l.done.Done():
		}
	}
	all := l.rolls.end(id)
	order.By(all, func(a, b *session.ReplicaInfo) bool {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Replica, b.Replica)) < 0
	})
	return append([]session.ReplicaInfo{l.describe()}, all...)
}

// describe is what this replica says of itself.
func (l *Link) describe() session.ReplicaInfo {
	info := session.ReplicaInfo{Replica: l.name, Process: os.Getpid(), Version: l.Version, Started: l.started}
	info.Host, _ = os.Hostname() // without a name the others tell it apart by its random one
	l.Core.Load(&info)
	if since := l.guard.awaySince(); !since.IsZero() {
		info.AwayFor = time.Since(since).Seconds()
	}
	return info
}

// rollCalled answers a question of another replica, or takes an answer.
func (l *Link) rollCalled(from string, m *rollSignal) (known bool) {
	if m.Answer != nil {
		return l.rolls.take(m.ID, *m.Answer)
	}
	answer := l.describe()
	l.publish(share.Key{}, replicaChannel+from, envelope{Roll: &rollSignal{m.ID, &answer}}, 0)
	return true
}
