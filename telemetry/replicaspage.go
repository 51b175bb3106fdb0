package telemetry

import (
	"context"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// ReplicasHandler serves GET /debug/replicas: what each replica of the server says of itself. It asks all of
// them, over the store that they share, and waits twice store_timeout for the answers. It is JSON, or text as with
// [Telemetry.RequestsHandler].
func (t *Telemetry) ReplicasHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if readOnly(w, req) {
			report.Write(w, req, t.reportReplicas(req.Context()))
		}
	})
}

// What the list of replicas cannot have.
const (
	noteNoStore   = "This server shares nothing with others (no store is set), and cannot see whether there are any."
	noteStoreAway = "The store is away: this replica cannot see the others."
	noteAlone     = "No other replica has answered. Either there is none, or this one does not hear the store, or it has just been away."
	noteReplicas  = "Replicas that cannot reach the store are not here, nor those of a release without this page. All other pages are about the replica that has made them."
)

func (t *Telemetry) reportReplicas(ctx context.Context) *report.Replicas {
	page := &report.Replicas{At: t.now(), Replicas: []report.Replica{}, Note: noteNoStore}
	for _, snap := range t.snapshots() {
		if snap.Store == nil {
			continue
		}
		all := snap.Store.Replicas(ctx)
		for _, info := range all {
			page.Replicas = append(page.Replicas, report.Replica{
				Replica: logline.Printable(info.Replica, maxName), This: info.Replica == snap.Store.Replica, Host: logline.Printable(info.Host, maxText),
				Process: info.Process, Version: logline.Printable(info.Version, maxName), Started: info.Started, Draining: info.Draining,
				InFlight: info.InFlight, Sessions: info.Sessions, Tasks: info.Tasks, StoreAwaySeconds: info.AwayFor.Seconds(),
			})
		}
		page.Note = noteReplicas
		if this := page.Replicas[len(page.Replicas)-len(all)]; this.StoreAwaySeconds > 0 || !snap.Store.Away.IsZero() {
			page.Note = noteStoreAway
		} else if len(all) == 1 {
			page.Note = noteAlone
		}
	}
	return page
}
