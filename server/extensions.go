package server

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// extensions has the extensions that are on, with their settings.
type extensions struct {
	mu   sync.RWMutex // locked before the locks of methods and notices
	byID map[string]jsontext.Value
}

// enter calls register for a method or a notification if its extension is on. replaced reports
// whether there was one with its name.
func (x *extensions) enter(name, extension string, register func() (replaced bool)) (replaced bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, on := x.byID[extension]; !on && extension != "" {
		return false, notAdded(name, extension)
	}
	return register(), nil
}

// put turns an extension on. replaced reports whether it was on before.
func (x *extensions) put(id string, settings any) (replaced bool, err error) {
	if err := mcp.CheckExtensionID(id); err != nil {
		return false, fmt.Errorf("server: %w", err)
	}
	raw := jsontext.Value("{}")
	if settings != nil {
		if raw, err = wire.Marshal(nil, settings); err != nil {
			return false, fmt.Errorf("server: encode the settings of extension %s: %w", id, err)
		}
		if raw.Kind() != '{' {
			return false, fmt.Errorf("server: the settings of extension %s must encode to a JSON object", id)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_, replaced = x.byID[id]
	if x.byID == nil {
		x.byID = map[string]jsontext.Value{}
	}
	x.byID[id] = raw
	return replaced, nil
}

// on reports whether an extension was added.
func (x *extensions) on(id string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, on := x.byID[id]
	return on
}

// ids returns the ids of the extensions that are on. The caller owns the slice.
func (x *extensions) ids() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byID))
}

// notifies reports whether Server.Notify can be used for an extension. Tasks have notifications of
// the protocol instead.
func (x *extensions) notifies(id string) bool { return id != mcp.ExtensionTasks && x.on(id) }

// announced returns the extensions that clients of an era are told of, or nil.
func (x *extensions) announced(in era.Set) map[string]any {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all map[string]any
	for id, settings := range x.byID {
		if era.OfExtension(id)&in != 0 {
			if all == nil {
				all = map[string]any{}
			}
			all[id] = settings
		}
	}
	return all
}

func notAdded(name, extension string) error {
	return fmt.Errorf("server: method %q: extension %q was not added", name, extension)
}

// checkOwnName checks the name of a method or notification that is not the protocol's.
func checkOwnName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("server: method name %q must have 1 to 128 characters", cut(name, 128))
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f {
			return fmt.Errorf("server: method name %q may have visible ASCII characters only", name)
		}
	}
	if mcp.OwnMethod(name) {
		return fmt.Errorf("server: method name %q is reserved to the protocol", name)
	}
	return nil
}
