package notify

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// parseFilter decodes the filter of a subscription. extension reports whether a member is the id
// of an extension with notifications. Unknown members are ignored. Of longer lists than most the first names are read, and one more.
func parseFilter(raw jsontext.Value, most int, extension func(id string) bool) (f mcp.SubscriptionFilter, err error) {
	var params struct {
		Notifications map[string]jsontext.Value `json:"notifications"`
	}
	if err := wire.Unmarshal(raw, &params); err != nil || params.Notifications == nil {
		return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications must be an object")
	}
	lists := map[string]*bool{
		"toolsListChanged": &f.ToolsListChanged, "promptsListChanged": &f.PromptsListChanged,
		"resourcesListChanged": &f.ResourcesListChanged,
	}
	names := map[string]*[]string{"resourceSubscriptions": &f.ResourceSubscriptions, "taskIds": &f.TaskIDs}
	for name, raw := range params.Notifications {
		to, list := lists[name]
		if !list && !extension(name) {
			continue
		}
		if raw.Kind() != 't' && raw.Kind() != 'f' {
			return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications.%s must be a boolean", name)
		}
		switch on := raw.Kind() == 't'; {
		case list:
			*to = on
		case on:
			if f.Extensions == nil {
				f.Extensions = map[string]bool{}
			}
			f.Extensions[name] = true
		}
	}
	for name, to := range names {
		if raw := params.Notifications[name]; raw != nil {
			if *to, err = distinctStrings(raw, most); err != nil {
				return f, mcp.NewError(mcp.CodeInvalidParams, "params.notifications.%s must be an array of strings", name)
			}
		}
	}
	return f, nil
}

// ResourcesOf returns the URIs of the resources in the params of subscriptions/listen, each once; nil
// if they cannot be read. Of more than most it returns one more.
func ResourcesOf(params jsontext.Value, most int) []string {
	var filter struct {
		Notifications struct {
			URIs jsontext.Value `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if wire.Unmarshal(params, &filter) != nil || filter.Notifications.URIs == nil {
		return nil
	}
	uris, _ := distinctStrings(filter.Notifications.URIs, most)
	return uris
}

var errNotStrings = errors.New("not an array of strings")

// distinctStrings decodes an array of strings and returns each string once, and no more of them than one beyond most: an array
// may have a million.
func distinctStrings(raw jsontext.Value, most int) (list []string, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '[' {
		return nil, errNotStrings
	}
	list = []string{}
	for seen := map[string]bool{}; len(list) <= most; {
		token, err := dec.ReadToken()
		switch {
		case err != nil || token.Kind() != '"' && token.Kind() != ']':
			return nil, errNotStrings
		case token.Kind() == ']':
			return list, nil
		}
		if s := token.String(); !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	return list, nil
}

// topicsOf returns the topics of a filter.
func topicsOf(f mcp.SubscriptionFilter) (topics []Topic) {
	for kind, on := range [...]bool{Tools: f.ToolsListChanged, Prompts: f.PromptsListChanged, Resources: f.ResourcesListChanged} {
		if on {
			topics = append(topics, Topic{Kind: Kind(kind)})
		}
	}
	for _, uri := range f.ResourceSubscriptions {
		topics = append(topics, Topic{Resource, uri})
	}
	for _, id := range f.TaskIDs {
		topics = append(topics, Topic{Task, id})
	}
	for id := range f.Extensions {
		topics = append(topics, Topic{Extension, id})
	}
	return topics
}
