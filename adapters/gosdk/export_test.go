package gosdk

// Remembered returns how many exchanges and arrivals of messages the adapter remembers.
func Remembered(a *Adapter) (n int) {
	count := func(any, any) bool { n++; return true }
	a.exchanges.Range(count)
	a.arrivals.Range(count)
	return n
}

// ReadNames takes the lock of the names for reading.
func ReadNames(a *Adapter) (release func()) {
	a.names.mu.RLock()
	return a.names.mu.RUnlock
}
