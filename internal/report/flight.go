package report

// FlightOnDemand is the reason for a snapshot of the flight recorder that was requested.
const FlightOnDemand = "on_demand"

// Why a reason for a snapshot led to no snapshot.
const (
	FlightInterval = "interval" // the previous snapshot is too recent
	FlightBusy     = "busy"     // another snapshot waits to be taken
	FlightFailed   = "failed"   // the snapshot could not be taken
)

// FlightDrops lists why a reason for a snapshot led to no snapshot.
func FlightDrops() []string { return []string{FlightInterval, FlightBusy, FlightFailed} }
