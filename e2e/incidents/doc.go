// Package incidents stages incidents with real clients over HTTP, and reads their cause from /debug/changes.
package incidents
