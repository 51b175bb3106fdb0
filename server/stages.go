package server

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// timed wraps a handler in middlewares, the first is the outermost, and measures how long a request
// is in each of them and in the handler. It returns the names of these stages, nil without
// middlewares: then nothing is measured.
func timed(middlewares []middleware.Middleware, h middleware.Handler) (_ middleware.Handler, stages []string) {
	if len(middlewares) == 0 {
		return h, nil
	}
	single := min(len(middlewares), session.MaxTimedMiddlewares)
	stages = stageNames(middlewares[:single])
	if len(middlewares) > single {
		stages = append(stages, session.StageMiddleware+"others")
	}
	stages = append(stages, session.StageHandler)
	h = stage(len(stages)-1, h)
	for i := len(middlewares) - 1; i >= 0; i-- {
		h = middlewares[i](h)
		if i <= single {
			h = stage(i, h)
		}
	}
	return h, stages
}

// stage measures one stage.
func stage(i int, next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if r, ok := req.Origin.(*request); ok {
			r.stages.Enter(i)
			defer r.stages.Leave(i)
		}
		return next(ctx, req)
	}
}

// stageNames returns the names of the stages of middlewares. Of those with the same name the second
// has "#2" behind it, and so on.
func stageNames(middlewares []middleware.Middleware) []string {
	names := make([]string, len(middlewares), len(middlewares)+2)
	count := map[string]int{}
	for i, m := range middlewares {
		f := runtime.FuncForPC(reflect.ValueOf(m).Pointer())
		file, _ := f.FileLine(f.Entry())
		name := functionName(f.Name(), file)
		if count[name]++; count[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, count[name])
		}
		names[i] = session.StageMiddleware + name
	}
	return names
}

// functionName returns the package, the type and the name of the function that has made a middleware,
// such as limits.PerUser. full is the name of the middleware's own function, and file has its source.
// The compiler names a closure after all functions into which it was copied, and has the package of the
// outermost one in its name. The folder of the source is that of the package that it was written in.
func functionName(full, file string) string {
	full = strings.TrimSuffix(path.Base(strings.ReplaceAll(full, "[...]", "")), "-fm")
	parts := strings.Split(full, ".")
	pack := parts[0]
	if folder := path.Base(path.Dir(file)); folder != "." && folder != "/" {
		pack, _, _ = strings.Cut(folder, "@")
	}
	for parts = parts[1:]; len(parts) > 1 && isClosure(parts[len(parts)-1]); {
		parts = parts[:len(parts)-1]
	}
	name := parts[len(parts)-1]
	if len(parts) > 1 && strings.HasPrefix(parts[len(parts)-2], "(*") {
		name = strings.Trim(parts[len(parts)-2], "(*)") + "." + name
	}
	return pack + "." + name
}

// isClosure reports whether a part of a function's name was made by the compiler: func1, 2, gowrap3.
func isClosure(part string) bool {
	part = strings.TrimPrefix(strings.TrimPrefix(part, "func"), "gowrap")
	return strings.Trim(part, "0123456789") == ""
}
