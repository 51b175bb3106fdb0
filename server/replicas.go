package server

import (
	"context"
	"errors"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/replica"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// WithStore connects the server with its other replicas, which have the same store, name and state keys
// ([WithStateKeys], which it needs). Then it does not matter which of them gets a message: a cancellation
// reaches the request, an answer of a client the handler that has asked, and a session that was deleted
// has ended for all. The log level and the subscriptions of a session hold for all, and so do
// [Server.ResourceUpdated], [Server.Notify] and changes of lists. The session's own stream (GET) carries the messages of
// all, wherever it is open. Any of them serves a task, unless
// [Tasks] has a store of its own. They share the buckets of rate limits ([WithRateLimits]). docs/replicas.md says what is not
// promised. A plain call does not use the store, and goes on while that is away.
//
// The server uses the store until [Server.Shutdown] returns. The caller closes it after that.
func WithStore(s store.Store) Option {
	return optionFunc(func(c *config) { c.store = &s })
}

// SetStore is [WithStore] after New. Package service uses it for a flag. It must be called once, after
// the state keys are set and before the first request.
func (s *Server) SetStore(shared store.Store) error {
	switch {
	case s.link != nil:
		return errors.New("server: the server has a store already")
	case !shared.Shared():
		return errors.New("server: a store needs values and signals")
	case !s.core.SealsSessions():
		return errors.New("server: a store needs state keys, which the replicas share (WithStateKeys)")
	}
	l := s.core.Limits()
	s.link = replica.New(replica.Config{
		Store: shared, Core: s.core, Logger: s.logger, Version: s.info.Version, Timeout: l.StoreTimeout, MaxPending: l.MaxPendingSignals,
		LimitReached: func() { s.core.LimitReached(limits.NamePendingSignals) },
		Changed:      s.changedElsewhere, TasksChanged: s.tasksChangedElsewhere, Missed: s.missed,
	})
	if s.tasks != nil {
		s.tasks.Share(s.link)
	}
	s.routes.asker.ShareUses(s.link.Values())
	s.core.ServeElsewhere(s.link, func(sess *session.Session, st session.SharedState) {
		s.subscriptions.Replace(sess, st.Resources)
	})
	if shared.Events != nil {
		s.core.ShareEvents(s.link.Events())
	}
	if shared.Buckets != nil {
		s.core.ShareRates(s.link.Buckets())
	}
	s.tellLists()
	return nil
}

// errStoreAway is the error of [Server.StoreReady].
var errStoreAway = errors.New("the store that the replicas share is away")

// StoreReady returns an error while the store ([WithStore]) is away. It is a check for [Server.AddReadiness] of a server
// that is of no use without the store. Others need none: a plain call goes on, and if all replicas lose the store, none
// is ready.
func (s *Server) StoreReady(context.Context) error {
	if s.link != nil && !s.link.Connected() {
		return errStoreAway
	}
	return nil
}

// tellLists tells the clients of other replicas of the lists that this one has got before its store. Later items are
// told as they come.
func (s *Server) tellLists() {
	for list, has := range map[notify.Kind]bool{
		notify.Tools: s.tools.used(), notify.Prompts: s.prompts.used(), notify.Resources: s.resources.used() || s.templates.used(),
	} {
		if has {
			s.link.Publish(replica.Change{Kind: int(list)})
		}
	}
}

// tell sends a notification to its subscribers, also to those of other replicas. wanted says whether
// there may be any. It does not wait for them.
func (s *Server) tell(n notify.Notification) (wanted bool) {
	wanted = s.hub.Publish(n)
	if s.link == nil {
		return wanted
	}
	s.link.Publish(replica.Change{Kind: int(n.Kind), Name: n.Name, Method: n.Method, Params: n.Params})
	return true
}

// changedElsewhere sends a change of another replica to the subscribers of this one. If there are
// policies, a change of an item that this replica does not have is one for all: it has no secrets.
func (s *Server) changedElsewhere(c replica.Change) {
	kind := notify.Kind(c.Kind)
	switch {
	case c.All:
		s.hub.Refresh()
		return
	case !slices.Contains([]notify.Kind{notify.Tools, notify.Prompts, notify.Resources, notify.Resource, notify.Extension}, kind):
		return
	}
	n := notify.Notification{Topic: notify.Topic{Kind: kind, Name: c.Name}, Method: c.Method, Params: c.Params}
	for _, to := range s.targetsOf(kind, c.Name) {
		n.Items = append(n.Items, to)
	}
	s.hub.Publish(n)
}

// tasksChangedElsewhere takes the ids of tasks that another replica has changed, or that all may have.
func (s *Server) tasksChangedElsewhere(ids []string, all bool) {
	switch {
	case s.tasks == nil:
	case all:
		s.tasks.Missed()
	default:
		s.tasks.ChangedElsewhere(ids)
	}
}

// missed is called when changes by other replicas may have been lost.
func (s *Server) missed() {
	s.hub.Refresh()
	s.tasksChangedElsewhere(nil, true)
}

// targetsOf returns the items of a list that have a name.
func (s *Server) targetsOf(list notify.Kind, name string) (all []*target) {
	if !s.access.restricts || name == "" {
		return nil
	}
	var found []*target
	switch list {
	case notify.Tools:
		found = []*target{s.tools.target(name)}
	case notify.Prompts:
		found = []*target{s.prompts.target(name)}
	case notify.Resources:
		found = []*target{s.resources.target(name), s.templates.target(name)}
	}
	return slices.DeleteFunc(found, func(to *target) bool { return to == nil })
}
