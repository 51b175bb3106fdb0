package evaluate

import "bytes"

// equal reports whether two values of the document are equal. It needs no canonical texts, which would
// take more memory than the values do.
func (r *run) equal(a, b uint32) bool {
	is := r.doc.kind(a)
	if is != r.doc.kind(b) || !r.charge(1) {
		return false
	}
	switch is {
	case stringKind:
		return r.charge(len(r.doc.literal(a))/bytesPerStep) && r.doc.sameText(a, b)
	case numberKind:
		return r.equalNumbers(a, b)
	case arrayKind, objectKind:
		x, y := r.doc.entries[a], r.doc.entries[b]
		switch {
		case x.size != y.size:
			return false
		case is == objectKind:
			return r.equalObjects(a, b)
		}
		for a, b = a+1, b+1; a < x.next; a, b = r.doc.entries[a].next, r.doc.entries[b].next {
			if !r.equal(a, b) {
				return false
			}
		}
		return true
	}
	return r.doc.first(a) == r.doc.first(b)
}

func (r *run) equalNumbers(a, b uint32) bool {
	x, y := r.doc.literal(a), r.doc.literal(b)
	if bytes.Equal(x, y) {
		return true
	}
	r.buffer = r.decimal(a).appendTo(r.buffer[:0])
	length := len(r.buffer)
	r.buffer = r.decimal(b).appendTo(r.buffer)
	return bytes.Equal(r.buffer[:length], r.buffer[length:])
}

// equalObjects is equal for two objects with as many members.
func (r *run) equalObjects(a, b uint32) bool {
	x, y := r.doc.entries[a], r.doc.entries[b]
	var table names
	if x.size > maxPairwise {
		table = newNames(nil, int(y.size))
		r.doc.add(table, b, int(y.next))
	}
	for name := a + 1; name < x.next; name = r.doc.entries[name+1].next {
		if !r.charge(stepsPerHash + r.nameSteps(name)) {
			return false
		}
		var other uint32
		if table == nil {
			other = r.doc.named(b, y.next, name)
		} else {
			other = *r.doc.slot(table, name)
		}
		if other == 0 || !r.equal(name+1, other+1) {
			return false
		}
	}
	return true
}
