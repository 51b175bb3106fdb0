package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Elsewhere reaches the other replicas. Its methods are safe for concurrent use. State and Change wait for
// the store, with a deadline of their own. After a failure of one of them [Core.ShareAgain] is called.
type Elsewhere interface {
	// Replica is a random name of this process: letters and digits.
	Replica() string
	// Send sends a signal about a session to the others, and reports whether it is on its way.
	Send(caller share.Key, m Signal) bool
	// Deliver is Send, and waits for the store. Otherwise tried reports whether the signal may be on its way
	// all the same.
	Deliver(caller share.Key, m Signal) (sent, tried bool)
	// State returns what the replicas share of a session; the zero value if that is nothing.
	State(ctx context.Context, session string) (SharedState, error)
	// Change changes it, tells the others, and returns the new one.
	Change(ctx context.Context, session string, ends time.Time, change func(*SharedState)) (SharedState, error)
	// Forget has the store forget what the replicas share of it. If that fails, the store does so at its end.
	Forget(ctx context.Context, session string)
}

// A Signal tells another replica of what has arrived here. Exactly one of its kinds is set.
type Signal struct {
	// Session is the inner id of a session.
	Session string `json:"session"`
	// Through is where what follows has arrived. It may be nil.
	Through *Through `json:"through,omitempty"`
	// Cancel is the key of the id of a request that its client has cancelled, Reason what it said.
	Cancel string `json:"cancel,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Answer is the answer to the request with an id that the replica To has sent.
	To     string          `json:"to,omitempty"`
	Answer *ElsewhereReply `json:"answer,omitempty"`
	// Stream is about a stream that the replica To writes.
	Stream *resume.Signal `json:"stream,omitempty"`
	// Own is a message for the session's own stream, which the replica To has. Fate is what became of it.
	Own  *OwnMessage `json:"own,omitempty"`
	Fate *OwnFate    `json:"fate,omitempty"`
}

// An ElsewhereReply is the answer of a client to a request of ours.
type ElsewhereReply struct {
	ID     string `json:"id"`
	Result []byte `json:"result,omitempty"`
	Error  []byte `json:"error,omitempty"`
}

// An OwnMessage is a message of another replica for the session's own stream.
type OwnMessage struct {
	From   string `json:"from"`   // the replica that has sent it
	Number uint64 `json:"number"` // which that gave it
	Method string `json:"method"`
	Frame  []byte `json:"frame"`
	Call   bool   `json:"call,omitempty"` // a request, which a client must read to be asked
}

// An OwnFate is what became of the message with a number.
type OwnFate struct {
	Number  uint64         `json:"number"`
	Stored  bool           `json:"stored,omitempty"`
	Dropped mcp.DropReason `json:"dropped,omitempty"`
	// Unwritten: the client has got nothing of what was dropped.
	Unwritten bool `json:"unwritten,omitempty"`
	// Gone: the replica has nothing of the session's own stream.
	Gone bool `json:"gone,omitempty"`
}

// A Through says through which replica a message came that concerns something here.
type Through struct {
	Replica string `json:"replica"`
	// Trace is the trace context that the message has there, or "".
	Trace string `json:"trace,omitempty"`
}

// What comes through another replica.
const (
	ThroughCancel = "cancel"
	ThroughAnswer = "answer"
	ThroughEnd    = "session_end"
)

// A ReplicaInfo is what a replica says of itself. Replicas of other releases read it.
type ReplicaInfo struct {
	Replica  string    `json:"replica"` // its random name among them
	Host     string    `json:"host"`    // the name of its machine, as the system has it
	Process  int       `json:"process"`
	Version  string    `json:"version"` // of the program
	Started  time.Time `json:"started"`
	Draining bool      `json:"draining,omitzero"`
	InFlight int       `json:"inFlight"` // requests, with subscriptions
	Sessions int       `json:"sessions"` // that it has objects of: of a session with a sealed id there may be several
	Tasks    int       `json:"tasks"`    // whose handlers run there
	// AwayFor is for how long the store has not answered it, in seconds.
	AwayFor float64 `json:"awayFor,omitzero"`
}
