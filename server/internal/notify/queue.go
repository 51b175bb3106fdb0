package notify

// latest is a queue of changes: of each topic it keeps the last one, in the order in
// which the topics were new. The zero value is empty, and an empty one holds no memory.
type latest struct {
	lists   uint8 // a bit for each kind of list: there is always room for them
	updates []Topic
	known   map[Topic]known // what is in updates
	parts   int
}

// known is what else is remembered of an update.
type known struct {
	part bool // of a resource
	last Notification
}

// add remembers a change for a subscriber of the topic as. Beyond limit parts of resources
// it remembers the resource instead and returns false.
func (q *latest) add(n Notification, as Topic, limit int) (lossless bool) {
	t := n.Topic
	if t.Kind < numLists {
		q.lists |= 1 << t.Kind
		return true
	}
	if k, there := q.known[t]; there {
		k.last = n
		q.known[t] = k
		return true
	}
	lossless = t == as || q.parts < limit
	if !lossless {
		if t = as; q.has(as) {
			return false
		}
	}
	if q.known == nil {
		q.known = map[Topic]known{}
	}
	n.Topic = t
	if q.known[t] = (known{t != as, n}); t != as {
		q.parts++
	}
	q.updates = append(q.updates, t)
	return lossless
}

func (q *latest) has(t Topic) bool {
	_, there := q.known[t]
	return there
}

func (q *latest) empty() bool { return q.lists == 0 && len(q.updates) == 0 }

// take moves the next changes to batch until that has n, the lists first.
func (q *latest) take(batch []Notification, n int) []Notification {
	for kind := range numLists {
		if q.lists&(1<<kind) != 0 && len(batch) < n {
			q.lists &^= 1 << kind
			batch = append(batch, Notification{Topic: Topic{Kind: kind}})
		}
	}
	k := min(n-len(batch), len(q.updates))
	for _, t := range q.updates[:k] {
		was := q.known[t]
		if was.part {
			q.parts--
		}
		delete(q.known, t)
		batch = append(batch, was.last)
	}
	if q.updates = q.updates[k:]; len(q.updates) == 0 {
		q.updates, q.known = nil, nil
	}
	return batch
}

// every is a queue of events, in their order. The zero value is empty.
type every []Notification

// add remembers an event; false if there is no room for it.
func (q *every) add(n Notification, limit int) bool {
	if len(*q) >= limit {
		return false
	}
	*q = append(*q, n)
	return true
}

// take moves the next events to batch until that has n.
func (q *every) take(batch []Notification, n int) []Notification {
	k := min(n-len(batch), len(*q))
	batch = append(batch, (*q)[:k]...)
	if *q = (*q)[k:]; len(*q) == 0 {
		*q = nil
	}
	return batch
}
