package schema

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// A goField is a field of a struct as json/v2 reads it. Unlike a [field] it may have any
// option of json/v2.
type goField struct {
	name, goName string
	typ          reflect.Type
	tagged       bool // the name is in the tag
	anyCase      bool // names are compared without case
	unknown      bool // an option changes the JSON form of the type
	depth        int
}

// structFields returns the fields of a struct and of the structs that it embeds. open
// reports that the struct accepts members of any name.
func structFields(t reflect.Type) (fields []goField, open bool, err error) {
	if err := json.Unmarshal([]byte(`{}`), reflect.New(t).Interface()); err != nil {
		return nil, false, err
	}
	open = collectFields(t, 0, &fields, nil)
	return fields, open, nil
}

func collectFields(t reflect.Type, depth int, to *[]goField, inside []reflect.Type) (open bool) {
	if slices.Contains(inside, t) {
		return false
	}
	inside = append(inside, t)
	for sf := range t.Fields() {
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options := splitTag(tag)
		inline := embeds(sf)
		switch sub := deref(sf.Type); {
		case inline && sub.Kind() == reflect.Struct:
			open = collectFields(sub, depth+1, to, inside) || open
		case inline: // a map or a jsontext.Value takes what no other field does
			open = true
		default:
			f := goField{name: name, goName: sf.Name, typ: sf.Type, depth: depth, tagged: name != ""}
			if f.name == "" {
				f.name = sf.Name
			}
			for _, option := range options {
				f.anyCase = f.anyCase || option == "case:ignore"
				f.unknown = f.unknown || option == "string" || strings.HasPrefix(option, "format:")
			}
			f.add(to)
		}
	}
	return open
}

// eachField visits the fields of a struct, and of the structs that it embeds. inside has the structs around it.
func eachField(t reflect.Type, inside []reflect.Type, visit func(reflect.StructField)) {
	if slices.Contains(inside, t) {
		return
	}
	for sf := range t.Fields() {
		visit(sf)
		if sub := deref(sf.Type); embeds(sf) && sub.Kind() == reflect.Struct {
			eachField(sub, append(inside, t), visit)
		}
	}
}

// embeds reports whether the members of a field are members of the struct itself.
func embeds(sf reflect.StructField) bool {
	name, options := splitTag(sf.Tag.Get("json"))
	return sf.Anonymous && name == "" || slices.Contains(options, "embed")
}

// add adds a field. One that is less deep hides the others of its name. At the same depth one whose name is in its tag hides the others.
func (f goField) add(to *[]goField) {
	i := slices.IndexFunc(*to, func(other goField) bool { return other.name == f.name })
	if i < 0 {
		*to = append(*to, f)
		return
	}
	if other := &(*to)[i]; f.depth < other.depth || f.depth == other.depth && f.tagged && !other.tagged {
		*other = f
	}
}

// shortest returns how many bytes the shortest name has that is decoded into the field: without case, dashes and underscores do not count.
func (f goField) shortest() int {
	if !f.anyCase {
		return len(f.name)
	}
	return len(f.name) - strings.Count(f.name, "-") - strings.Count(f.name, "_")
}

// splitTag splits a json tag into the name and the options.
func splitTag(tag string) (name string, options []string) {
	name, rest, _ := strings.Cut(tag, ",")
	if strings.HasPrefix(name, "'") { // a name in quotes may have commas in it
		if end := strings.LastIndex(tag, "'"); end > 0 {
			name, rest = tag[1:end], strings.TrimPrefix(tag[end+1:], ",")
		}
	}
	return name, strings.Split(rest, ",")
}
