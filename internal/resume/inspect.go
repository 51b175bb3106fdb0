package resume

// This file lets the tests of the session core look into the store.

// Empty reports whether the store keeps nothing, and counts nothing either.
func (m *Memory) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions) == 0 && len(m.owners) == 0 && len(m.largest) == 0 && m.bytes == 0
}
