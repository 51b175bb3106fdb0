package gosdk

// Remembered returns how many exchanges and arrivals of messages the adapter remembers.
func Remembered(a *Adapter) (n int) {
	count := func(any, any) bool { n++; return true }
	a.exchanges.Range(count)
	a.arrivals.Range(count)
	return n
}
