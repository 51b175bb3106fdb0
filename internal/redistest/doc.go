// Package redistest runs real Redis servers for tests, and a proxy that breaks connections to them. It
// is for tests only. Nested modules such as e2e may import it too.
package redistest
