// Package incidents stages incidents with real clients over HTTP, and reads their cause from /debug/changes.
//
// For a drill, go test -v -run Cause ./incidents -hold 30m keeps the servers up after the incidents and says
// where their pages and logs are. Minutes of traffic take a second there: only /debug/changes has the times
// of the incident.
package incidents
