package session

import "fmt"

// A HandlerPanic carries the panic of a handler from the goroutine on which it
// happened to that of its request, which panics with it.
type HandlerPanic struct {
	Value any // nil for a runtime.Goexit
	Stack []byte
}

// Error returns the panic's text.
func (p *HandlerPanic) Error() string { return panicText(p.Value) }

// panicText is how logs tell of a panic; nil is a runtime.Goexit.
func panicText(value any) string {
	if value == nil {
		return "goexit"
	}
	return fmt.Sprint(value)
}
