package evaluate

// marks are the members or items of a value that were evaluated, by their positions.
type marks struct {
	all  bool
	bits []uint64
}

func (m *marks) mark(position int) {
	if m != nil {
		m.bits[position/64] |= 1 << (position % 64)
	}
}

func (m *marks) markAll() {
	if m != nil {
		m.all = true
	}
}

func (m *marks) has(position int) bool { return m.all || m.bits[position/64]&(1<<(position%64)) != 0 }

func (m *marks) add(other *marks) {
	m.all = m.all || other.all
	for i, bits := range other.bits {
		m.bits[i] |= bits
	}
}

// pushMarks returns marks for the parts of a value.
func (r *run) pushMarks(v uint32) *marks {
	size := 0
	if r.doc.kind(v)&(objectKind|arrayKind) != 0 {
		size = (int(r.doc.entries[v].size) + 63) / 64
	}
	r.charge(size)
	from := len(r.marks)
	for range size {
		r.marks = append(r.marks, 0)
	}
	var m *marks
	if last := len(r.spare) - 1; last >= 0 {
		m, r.spare = r.spare[last], r.spare[:last]
	} else {
		m = new(marks)
	}
	m.bits = r.marks[from:len(r.marks):len(r.marks)]
	return m
}

// popMarks gives back the last marks that were pushed.
func (r *run) popMarks(m *marks) {
	r.marks = r.marks[:len(r.marks)-len(m.bits)]
	*m = marks{}
	r.spare = append(r.spare, m)
}
