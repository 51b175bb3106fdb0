package session

import (
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A Class is a concurrency limit that the routes which name it share.
type Class struct {
	Name string
	pool *share.Pool
	// resuming counts the handlers that have let their slots go and wait for one.
	resuming atomic.Int64
}

// NewClass returns a class of which at most limit handlers run at once.
func NewClass(name string, limit int) *Class {
	return &Class{Name: name, pool: share.NewPool(limit)}
}

// Label returns the name of the class, or "" for nil.
func (c *Class) Label() string {
	if c == nil {
		return ""
	}
	return c.Name
}

// Cap bounds how many of the handlers run at once for one caller; 0 is no bound. It must be called
// before the first request for the class.
func (c *Class) Cap(perCaller int) { c.pool.Cap(perCaller) }

// ClassPrefix begins the names of classes among the limits.
const ClassPrefix = "class:"
