package notify

import "slices"

// latest is a queue of changes. It keeps the last change of each topic, in the order in which the
// topics came first. The zero value is empty, and an empty queue holds no memory.
type latest struct {
	lists   uint8 // a bit for each kind of list; not limited
	updates []Topic
	known   map[Topic]known // the topics in updates
	parts   int
}

// known has the rest of an update.
type known struct {
	part bool // the topic is a part of what the subscriber has asked for
	last Notification
}

// add adds a change for a subscriber of the topic as. If there are limit parts of resources
// already, it adds the resource as instead and returns false.
func (q *latest) add(n Notification, as Topic, limit int) (lossless bool) {
	t := n.Topic
	if t.Kind < numLists && t.Name == "" {
		q.lists |= 1 << t.Kind
		return true
	}
	if k, there := q.known[t]; there {
		if t.Kind < numLists {
			n.Items = joinItems(k.last.Items, n.Items)
		}
		k.last = n
		q.known[t] = k
		return true
	}
	isPart := t != as && t.Kind == Resource
	lossless = !isPart || q.parts < limit
	if !lossless {
		if t = as; q.has(as) {
			return false
		}
	}
	if q.known == nil {
		q.known = map[Topic]known{}
	}
	n.Topic = t
	if q.known[t] = (known{isPart && lossless, n}); isPart && lossless {
		q.parts++
	}
	q.updates = append(q.updates, t)
	return lossless
}

// maxItems bounds the items of one name that wait in a queue.
const maxItems = 64

// joinItems returns what has been there of one name and is there now. Who could see any of it is told.
// Of too many the last ones are left out, except for the one that is there now.
func joinItems(before, now []any) []any {
	all := slices.Concat(before, now)
	if len(all) > maxItems {
		all = append(all[:maxItems-1], now[len(now)-1])
	}
	return all
}

func (q *latest) has(t Topic) bool {
	_, there := q.known[t]
	return there
}

func (q *latest) empty() bool { return q.lists == 0 && len(q.updates) == 0 }

// take moves changes to batch until batch has n notifications, the lists first.
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

// every is a queue of events. The zero value is empty.
type every []Notification

// add adds an event. It returns false if there are limit events already.
func (q *every) add(n Notification, limit int) bool {
	if len(*q) >= limit {
		return false
	}
	*q = append(*q, n)
	return true
}

// take moves events to batch until batch has n notifications.
func (q *every) take(batch []Notification, n int) []Notification {
	k := min(n-len(batch), len(*q))
	batch = append(batch, (*q)[:k]...)
	if *q = (*q)[k:]; len(*q) == 0 {
		*q = nil
	}
	return batch
}
