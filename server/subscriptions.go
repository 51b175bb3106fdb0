package server

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// honourTasks returns the ids of tasks of which the caller may learn, with the revisions
// that it could have read by now, or why there is none. The tasks extension takes part in subscriptions with it, and publishes changes of
// kind taskUpdated.
type honourTasks func(ctx context.Context, req *middleware.Request, ids []string) (map[string]int64, error)

// listen serves subscriptions/listen. It acknowledges the subscription and then sleeps:
// what is told is posted by the feed. All that comes before the sleep is in functions of
// their own, because what they need of the stack would be kept for as long.
func (s *Server) listen(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	l := &listener{server: s, req: era.CoreOf(req)}
	leave, err := s.acknowledge(ctx, req, l)
	defer leave()
	if err != nil {
		return nil, err
	}
	return l.wait(ctx)
}

// acknowledge begins a subscription. leave ends it, and must be called in any case.
func (s *Server) acknowledge(ctx context.Context, req *middleware.Request, l *listener) (leave func(), err error) {
	f, ack, err := s.admitListener(ctx, req, l)
	if err != nil {
		return func() {}, err
	}
	s.hub.join(f) // before the acknowledgement: what changes after it is told
	leave = func() { s.hub.leave(f) }
	var w *witness
	if len(l.extensions) > 0 {
		w = newWitness(s.core, l.tell)
		forget := s.happenings.join(w, l.extensions)
		leave = func() { forget(); s.hub.leave(f) }
	}
	if err := l.req.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, ack); err != nil {
		return leave, err
	}
	f.send()
	if w != nil {
		w.send()
	}
	return leave, nil
}

// wait returns how the subscription has ended.
//
//go:noinline
func (l *listener) wait(ctx context.Context) (mcp.Result, error) {
	select {
	case <-ctx.Done():
	case <-l.req.Parting():
	}
	switch cause, cancelled := mcp.CauseOf(ctx); {
	case !cancelled, cause == mcp.CauseServerShutdown, cause == mcp.CauseTransportClose:
		return l.result(), nil
	}
	return nil, context.Cause(ctx)
}

// admitListener returns the feed for what the client wants to know and may, and the
// params of the acknowledgement.
func (s *Server) admitListener(ctx context.Context, req *middleware.Request, l *listener) (*feed, []byte, error) {
	filter, err := listenFilter(req.Params, s.extensions.notifies)
	if err != nil {
		return nil, nil, err
	}
	limits := s.core.Limits()
	if max(len(filter.ResourceSubscriptions), len(filter.TaskIDs)) > limits.MaxResourceSubscriptions {
		return nil, nil, s.tooManyResources()
	}
	if filter, err = s.honoured(ctx, req, filter); err != nil {
		return nil, nil, err
	}
	revisions, err := s.honouredTasks(ctx, req, &filter)
	if err != nil {
		return nil, nil, err
	}
	l.extensions = slices.Collect(maps.Keys(filter.Extensions))
	ack, err := wire.Marshal([]byte(`{"notifications":`), filter)
	if err != nil {
		return nil, nil, err
	}
	f := newFeed(l, listsOf(filter), topicsOf(filter), limits.MaxPendingUpdates)
	f.revisions = revisions
	return f, l.appendMeta(append(ack, ',')), nil
}

// tooManyResources is the answer to who subscribes to more than max_resource_subscriptions.
func (s *Server) tooManyResources() *mcp.Error {
	s.core.LimitReached(session.LimitResourceSubscriptions)
	return mcp.NewError(mcp.CodeInvalidParams, "too many resources: %s is reached", session.LimitResourceSubscriptions).
		WithData(mcp.ErrorData{Limit: session.LimitResourceSubscriptions})
}

// listenFilter reads the filter of a subscription. own reports whether a member is the id
// of an extension of one's own. Members that the server does not know are notifications
// that it does not have.
func listenFilter(raw jsontext.Value, own func(id string) bool) (f mcp.SubscriptionFilter, err error) {
	var params struct {
		Notifications map[string]jsontext.Value `json:"notifications"`
	}
	if err := json.Unmarshal(raw, &params); err != nil || params.Notifications == nil {
		return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications must be an object")
	}
	for name, to := range map[string]*bool{
		"toolsListChanged": &f.ToolsListChanged, "promptsListChanged": &f.PromptsListChanged,
		"resourcesListChanged": &f.ResourcesListChanged,
	} {
		switch raw := params.Notifications[name]; raw.Kind() {
		case 't', 'f':
			*to = raw.Kind() == 't'
		case 0: // absent
		default:
			return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications.%s must be a boolean", name)
		}
	}
	for id, raw := range params.Notifications {
		switch {
		case !own(id) || raw.Kind() == 'f':
		case raw.Kind() != 't':
			return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications.%s must be a boolean", id)
		case f.Extensions == nil:
			f.Extensions = map[string]bool{}
			fallthrough
		default:
			f.Extensions[id] = true
		}
	}
	for name, to := range map[string]*[]string{
		"resourceSubscriptions": &f.ResourceSubscriptions, "taskIds": &f.TaskIDs,
	} {
		if raw := params.Notifications[name]; raw != nil {
			if *to, err = distinctStrings(raw); err != nil {
				return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications.%s must be an array of strings", name)
			}
		}
	}
	return f, nil
}

var errNotStrings = errors.New("not an array of strings")

// distinctStrings decodes an array of strings, each of which it returns once.
func distinctStrings(raw jsontext.Value) ([]string, error) {
	var all []*string // null is not a string
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, errNotStrings
	}
	list, seen := make([]string, 0, len(all)), make(map[string]bool, len(all))
	for _, s := range all {
		if s == nil {
			return nil, errNotStrings
		}
		if !seen[*s] {
			seen[*s] = true
			list = append(list, *s)
		}
	}
	return list, nil
}

// honoured returns the part of a filter that is served: what the server announces, and
// what the caller may see of it.
func (s *Server) honoured(
	ctx context.Context, req *middleware.Request, f mcp.SubscriptionFilter,
) (mcp.SubscriptionFilter, error) {
	if err := ownHonoured(req, f); err != nil {
		return f, err
	}
	lists, updates := s.tellable()
	f.ToolsListChanged = f.ToolsListChanged && lists&(1<<toolsChanged) != 0
	f.PromptsListChanged = f.PromptsListChanged && lists&(1<<promptsChanged) != 0
	f.ResourcesListChanged = f.ResourcesListChanged && lists&(1<<resourcesChanged) != 0
	f.ResourceSubscriptions = slices.DeleteFunc(f.ResourceSubscriptions, func(uri string) bool {
		return !updates || !s.readableBy(ctx, req, uri)
	})
	return f, nil
}

// honouredTasks leaves the tasks in a filter of which the caller may learn, and returns
// their revisions.
func (s *Server) honouredTasks(
	ctx context.Context, req *middleware.Request, f *mcp.SubscriptionFilter,
) (revisions map[string]int64, err error) {
	if s.honourTasks == nil || len(f.TaskIDs) == 0 {
		f.TaskIDs = nil
		return nil, nil
	}
	revisions, err = s.honourTasks(ctx, req, f.TaskIDs)
	f.TaskIDs = slices.DeleteFunc(f.TaskIDs, func(id string) bool { _, known := revisions[id]; return !known })
	return revisions, err
}

// tellable returns the lists of whose changes the server announces to tell, a bit for
// each, and whether it tells of updated resources.
func (s *Server) tellable() (lists uint8, updates bool) {
	c := s.announced(era.Both)
	if c.Tools != nil && c.Tools.ListChanged {
		lists |= 1 << toolsChanged
	}
	if c.Prompts != nil && c.Prompts.ListChanged {
		lists |= 1 << promptsChanged
	}
	if c.Resources != nil && c.Resources.ListChanged {
		lists |= 1 << resourcesChanged
	}
	return lists, c.Resources != nil && c.Resources.Subscribe
}

// readableBy reports whether the caller may read a URI, and so learn of its updates.
func (s *Server) readableBy(ctx context.Context, req *middleware.Request, uri string) bool {
	return s.shownTo(ctx, req, uri) != nil
}

func listsOf(f mcp.SubscriptionFilter) (lists uint8) {
	if f.ToolsListChanged {
		lists |= 1 << toolsChanged
	}
	if f.PromptsListChanged {
		lists |= 1 << promptsChanged
	}
	if f.ResourcesListChanged {
		lists |= 1 << resourcesChanged
	}
	return lists
}

func topicsOf(f mcp.SubscriptionFilter) (topics []change) {
	for _, uri := range f.ResourceSubscriptions {
		topics = append(topics, change{resourceUpdated, uri})
	}
	for _, id := range f.TaskIDs {
		topics = append(topics, change{taskUpdated, id})
	}
	return topics
}

// A listener is the outlet of one subscription.
type listener struct {
	server     *Server
	req        *session.Request
	extensions []string // of which it wants to know what happens
}

// post implements outlet.
func (l *listener) post(c news, done func()) {
	params := []byte{'{'}
	switch c.kind {
	case resourceUpdated:
		params = append(appendURI(params, c.name), ',')
	case taskUpdated:
		params = append(append(params, c.members...), ',')
	}
	// Its error is that of a subscription which has ended: the drop is counted.
	_ = l.req.Post(c.kind.notification(), l.appendMeta(params), done)
}

// tell posts what has happened in an extension, as post does.
func (l *listener) tell(what happening, done func()) {
	params := []byte{'{'}
	if len(what.params) > len("{}") {
		params = append(append(params, what.params[1:len(what.params)-1]...), ',')
	}
	_ = l.req.Post(what.method, l.appendMeta(params), done)
}

// overflow implements outlet.
func (l *listener) overflow() { l.server.core.LimitReached(session.LimitPendingUpdates) }

// appendMeta appends the _meta member that every message of a subscription has, and
// closes the params: the id of the request, as its client has written it.
func (l *listener) appendMeta(params []byte) []byte {
	return append(append(append(params, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...), l.req.ID.Raw()...), "}}"...)
}

// result is the polite end of a subscription.
func (l *listener) result() mcp.Result {
	return &mcp.EmptyResult{ResultMeta: mcp.ResultMeta{
		Meta: mcp.Meta{mcp.MetaSubscriptionID: jsontext.Value(l.req.ID.Raw())},
	}}
}

func appendURI(dst []byte, uri string) []byte {
	return wire.AppendString(append(dst, `"uri":`...), uri)
}

// notification returns the method that tells of a change.
func (k changeKind) notification() string {
	return [...]string{
		toolsChanged:     mcp.NotificationToolsListChanged,
		promptsChanged:   mcp.NotificationPromptsListChanged,
		resourcesChanged: mcp.NotificationResourcesListChanged,
		resourceUpdated:  mcp.NotificationResourcesUpdated,
		taskUpdated:      mcp.NotificationTasks,
	}[k]
}
