package ask

import (
	"crypto/rand"
	"sync"
	"time"
)

// A ticket names a state that may be used once. It is sealed with the state.
type ticket struct {
	// Process is a random name of the process that has issued the state.
	Process string `json:"process"`
	Number  uint64 `json:"number"`
}

// tickets remembers which of the states of this process were used, with one bit for each state
// that has not expired. It knows no state of another process, and accepts none: what an earlier
// process or another replica has issued may have been used there. It is safe for concurrent use.
type tickets struct {
	process string

	mu     sync.Mutex // guards the rest
	issued uint64     // the number of the next ticket
	first  uint64     // the first number of blocks[0]
	blocks []*ticketBlock
}

// ticketsOfBlock is how many tickets a block has. Blocks are forgotten as a whole.
const ticketsOfBlock = 1 << 13

type ticketBlock struct {
	end  time.Time // when the last of its states expires
	used [ticketsOfBlock / 64]uint64
}

func newTickets() *tickets { return &tickets{process: rand.Text()} }

// issue returns the ticket of a state that expires at end. It forgets the blocks whose states have
// all expired.
func (t *tickets) issue(now, end time.Time) ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.blocks) > 0 && t.blocks[0].end.Before(now) {
		t.blocks[0] = nil
		t.blocks = t.blocks[1:]
		t.first += ticketsOfBlock
	}
	if len(t.blocks) == 0 {
		t.first = t.issued
	}
	if t.issued == t.first+uint64(len(t.blocks))*ticketsOfBlock {
		t.blocks = append(t.blocks, new(ticketBlock))
	}
	t.blocks[len(t.blocks)-1].end = end
	n := t.issued
	t.issued++
	return ticket{t.process, n}
}

// use marks a ticket as used. It returns false if that was done before, or if the ticket is not
// known.
func (t *tickets) use(k ticket) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.Process != t.process || k.Number < t.first || k.Number >= t.issued {
		return false
	}
	place := k.Number - t.first
	word := &t.blocks[place/ticketsOfBlock].used[place%ticketsOfBlock/64]
	bit := uint64(1) << (place % 64)
	before := *word
	*word |= bit
	return before&bit == 0
}
