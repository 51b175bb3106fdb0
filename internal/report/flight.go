package report

// FlightOnDemand is the reason for a snapshot of the flight recorder that somebody has asked for.
const FlightOnDemand = "on_demand"

// Why a reason for a snapshot has led to none.
const (
	FlightInterval = "interval" // the one before was not long ago
	FlightBusy     = "busy"     // another one waits to be taken
	FlightFailed   = "failed"   // it could not be taken
)

// FlightDrops lists why a reason for a snapshot has led to none.
func FlightDrops() []string { return []string{FlightInterval, FlightBusy, FlightFailed} }
