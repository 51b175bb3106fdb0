package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A logRecord is what the code writes to the log: its message, with the levels and the
// keys of all places that write it.
type logRecord struct {
	levels, keys []string
	places       []string
}

// logMethods are the methods of a logger by name, with their level and the index of the
// message among their arguments.
var logMethods = map[string]struct {
	level   string
	message int
}{
	"Debug": {"debug", 0}, "Info": {"info", 0}, "Warn": {"warn", 0}, "Error": {"error", 0},
	"DebugContext": {"debug", 1}, "InfoContext": {"info", 1}, "WarnContext": {"warn", 1}, "ErrorContext": {"error", 1},
	"Log": {"", 2}, "LogAttrs": {"", 2},
	"complain": {"warn", 0}, // telemetry's own
}

// logRecords finds what a file writes to the log, and adds it to all.
func logRecords(name string, source []byte, all map[string]*logRecord) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		m, ok := logMethods[sel.Sel.Name]
		if !ok || len(call.Args) <= m.message {
			return true
		}
		message, ok := text(call.Args[m.message])
		if !ok || !strings.Contains(message, ".") || strings.Contains(message, " ") {
			return true
		}
		r := all[message]
		if r == nil {
			r = &logRecord{}
			all[message] = r
		}
		r.places = append(r.places, name)
		if m.level != "" && !slices.Contains(r.levels, m.level) {
			r.levels = append(r.levels, m.level)
		}
		for _, key := range keysOf(call.Args[m.message+1:]) {
			if !slices.Contains(r.keys, key) {
				r.keys = append(r.keys, key)
			}
		}
		return true
	})
	return nil
}

// keysOf returns the keys among the arguments of a record: those of pairs and of
// slog.Attr, also where they are appended to others.
func keysOf(args []ast.Expr) (keys []string) {
	for i := 0; i < len(args); i++ {
		if key, ok := text(args[i]); ok {
			keys = append(keys, key)
			i++ // its value
			continue
		}
		call, ok := args[i].(*ast.CallExpr)
		if !ok {
			continue
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			if f.Name == "append" {
				keys = append(keys, keysOf(call.Args)...)
			}
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok && x.Name == "slog" && len(call.Args) > 0 {
				if key, ok := text(call.Args[0]); ok {
					keys = append(keys, key)
				}
			} else if f.Sel.Name == "logAttrs" {
				keys = append(keys, "…")
			}
		}
	}
	return keys
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
