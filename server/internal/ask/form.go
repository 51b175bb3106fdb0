package ask

import (
	"reflect"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// forms caches compiled forms. Compiling one costs as much as a hundred plain calls, and a
// handler that asks runs several times.
type forms struct {
	byType sync.Map // inferred forms

	mu       sync.Mutex // guards bySchema
	bySchema map[string]*schema.Schema
}

// Bounds of the cache. Most handlers use a few schemas that never change. The bounds are for a
// handler that makes a new schema each time.
const (
	maxForms     = 128
	maxFormBytes = 8 << 10
)

// parse returns the compiled schema of a form.
func (f *forms) parse(raw jsontext.Value) (*schema.Schema, error) {
	f.mu.Lock()
	known := f.bySchema[string(raw)]
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	form, err := schema.ParseForm(raw)
	if err != nil || len(raw) > maxFormBytes {
		return form, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bySchema == nil || len(f.bySchema) >= maxForms {
		f.bySchema = map[string]*schema.Schema{}
	}
	f.bySchema[string(raw)] = form
	return form, nil
}

type inferredForm struct {
	schema *schema.Schema
	err    error
}

func (f *forms) of(t reflect.Type) (*schema.Schema, error) {
	known, ok := f.byType.Load(t)
	if !ok {
		var form inferredForm
		form.schema, form.err = schema.FormFor(t)
		known, _ = f.byType.LoadOrStore(t, form)
	}
	form := known.(inferredForm)
	return form.schema, form.err
}
