// Package incidents stages incidents with real clients over HTTP, and reads their cause from /debug/changes.
//
// For a drill, go test -v -timeout 2h -run Cause ./incidents -hold 30m takes as long as the incidents would: twelve
// minutes before them and seven after, in which a Prometheus scrapes all servers. Then it says where the pages are and
// goes on for half an hour.
package incidents
