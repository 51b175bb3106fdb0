package notify

import (
	"iter"
	"maps"
	"time"
)

// topics are what one feed is about. The zero value is none. Most feeds are only about lists, which need no map: that would take 460
// bytes. It is not safe for concurrent use.
type topics struct {
	lists     uint8               // a bit for each kind of list
	others    map[Topic]time.Time // since when it has resources; zero for tasks and extensions; nil before the first
	most      int                 // the most others that there were since the map was made
	resources int                 // how many of them are resources
}

func (s *topics) has(t Topic) bool {
	if t.Kind < numLists {
		return s.lists&(1<<t.Kind) != 0
	}
	_, there := s.others[t]
	return there
}

// add adds a topic that is not there.
func (s *topics) add(t Topic) {
	if t.Kind < numLists {
		s.lists |= 1 << t.Kind
		return
	}
	var since time.Time
	if t.Kind == Resource {
		s.resources++
		since = time.Now()
	}
	if s.others == nil {
		s.others = map[Topic]time.Time{}
	}
	s.others[t] = since
	s.most = max(s.most, len(s.others))
}

// remove removes a topic that is there, and returns since when that was so if it is a resource.
func (s *topics) remove(t Topic) (since time.Time) {
	if t.Kind < numLists {
		s.lists &^= 1 << t.Kind
		return since
	}
	if t.Kind == Resource {
		s.resources--
	}
	since = s.others[t]
	if delete(s.others, t); s.most > 64 && len(s.others) < s.most/4 { // a map keeps its memory
		s.others, s.most = maps.Clone(s.others), len(s.others)
	}
	return since
}

// all yields the topics. They may be removed meanwhile.
func (s *topics) all() iter.Seq[Topic] {
	return func(yield func(Topic) bool) {
		for kind := range numLists {
			if t := (Topic{Kind: kind}); s.has(t) && !yield(t) {
				return
			}
		}
		for t := range s.others {
			if !yield(t) {
				return
			}
		}
	}
}
