package policy

import (
	"encoding/json"
	"math"
	"net"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Variables of expressions that are unknown in lists.
const (
	varArguments = "arguments"
	varURI       = "operation.uri"
)

// variableNames are the variables of expressions. Each has its whole path as its name, so that the
// compiler finds misspelled members.
var variableNames = []string{
	"principal.issuer", "principal.subject", "principal.tenant", "principal.client",
	"principal.scopes", "principal.actors", "principal.claims",
	"operation.method", "operation.kind", "operation.name", varURI, "operation.template", "operation.scopes",
	"caller.transport", "caller.address", "caller.client_name", "caller.client_version",
	varArguments,
}

// declarations declare the variables.
func declarations() []cel.EnvOption {
	var options []cel.EnvOption
	for _, name := range variableNames {
		declared := cel.StringType
		switch name {
		case "principal.scopes", "principal.actors", "operation.scopes":
			declared = cel.ListType(cel.StringType)
		case "principal.claims", varArguments:
			declared = cel.MapType(cel.StringType, cel.DynType)
		}
		options = append(options, cel.Variable(name, declared))
	}
	return options
}

// variables are the values of one decision. They implement cel.Activation.
type variables struct {
	principal *auth.Principal // never nil
	op        *auth.Operation
	set       *ruleset
	steps     *[]Step // nil, or the rules that were asked

	arguments any // nil, or the result of decoded
	// room is an empty map for the arguments, or nil. It is used again for the next decision, and so is latest.
	room   map[string]any
	latest *callerResults // or nil
}

// maxRoom bounds the members that a map had which is used again.
const maxRoom = 16

// reset forgets everything but an empty map for the next arguments.
func (v *variables) reset() {
	room := v.room
	if len(room) > maxRoom {
		room = nil
	}
	clear(room)
	*v = variables{room: room, latest: v.latest}
}

// nobody stands for a caller without a principal.
var nobody = &auth.Principal{}

// variablesPool has variables that are used again. The plain version makes them for each decision
// (BenchmarkDecide).
var variablesPool = sync.Pool{New: func() any { return new(variables) }}

func (v *variables) Parent() cel.Activation { return nil }

// ResolveName returns the value of a variable. Texts are as CEL has them, which makes one object less.
func (v *variables) ResolveName(name string) (any, bool) {
	p, op := v.principal, v.op
	switch name {
	case "principal.subject":
		return types.String(p.Subject), true
	case "principal.issuer":
		return types.String(p.Issuer), true
	case "principal.tenant":
		return types.String(p.Tenant), true
	case "principal.client":
		return types.String(p.Client), true
	case "principal.scopes":
		return newTexts(v.scopes()), true
	case "principal.actors":
		return newTexts(p.Actors), true
	case "principal.claims":
		return p.Claims, true
	case varArguments:
		return v.decoded(), true
	case "operation.method":
		return types.String(op.Method), true
	case "operation.kind":
		return types.String(op.Kind), true
	case "operation.name":
		return types.String(op.Name), true
	case varURI:
		return types.String(op.URI), true
	case "operation.template":
		return types.String(op.Template), true
	case "operation.scopes":
		return newTexts(op.Scopes), true
	case "caller.transport":
		return types.String(op.Transport), true
	case "caller.address":
		return types.String(host(op.Address)), true
	case "caller.client_name":
		return types.String(op.ClientName), true
	case "caller.client_version":
		return types.String(op.ClientVersion), true
	}
	return nil, false
}

// decoded returns the arguments, which are decoded once for all rules, and not before one needs them.
// It is a map or an error of CEL.
func (v *variables) decoded() any {
	if v.arguments == nil {
		if v.room == nil {
			v.room = map[string]any{}
		}
		v.arguments = v.room
		if err := decodeArguments(v.room, v.op.Arguments, v.set.wanted, decoder{v.set.maxValues, v.set.maxDepth}); err != nil {
			v.arguments = types.WrapErr(err)
		}
	}
	return v.arguments
}

// scopes returns what the principal has, and what that includes.
func (v *variables) scopes() []string {
	all := v.principal.Scopes
	if len(v.set.included) == 0 {
		return all
	}
	all = slices.Clip(all)
	for _, scope := range v.principal.Scopes {
		for _, below := range v.set.included[scope] {
			if !slices.Contains(all, below) {
				all = append(all, below)
			}
		}
	}
	return all
}

// includedBy returns for each scope all that it includes, directly or through others.
func includedBy(h auth.Hierarchy) map[string][]string {
	all := map[string][]string{}
	for above := range h {
		reached := []string{above}
		for i := 0; i < len(reached); i++ {
			for _, below := range h[reached[i]] {
				if !slices.Contains(reached, below) {
					reached = append(reached, below)
				}
			}
		}
		all[above] = reached[1:]
	}
	return all
}

// host returns an address without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// texts is a list of strings whose operator "in" makes no value of each element.
type texts struct {
	traits.Lister
	list []string
}

func newTexts(list []string) texts {
	return texts{types.NewStringList(adapter{}, list), list}
}

// Contains implements the operator "in".
func (t texts) Contains(value ref.Val) ref.Val {
	if s, ok := value.(types.String); ok {
		return types.Bool(slices.Contains(t.list, string(s)))
	}
	return t.Lister.Contains(value)
}

// adapter makes CEL values of Go values, among them the numbers of claims.
type adapter struct{}

// errRounded is the error of a number of the claims.
var errRounded = &argumentError{"a number may have been rounded"}

var maxExact = math.Ldexp(1, 53) // from here on a float64 has no unit digit

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case int64:
		return types.Int(v)
	case bool:
		return types.Bool(v)
	case nil:
		return types.NullValue
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case []string:
		return newTexts(v)
	case float64:
		if math.Abs(v) >= maxExact {
			return types.WrapErr(errRounded)
		}
		return types.Double(v)
	case json.Number:
		n, err := number(v.String())
		if err != nil {
			return types.WrapErr(err)
		}
		return types.DefaultTypeAdapter.NativeToValue(n)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}
