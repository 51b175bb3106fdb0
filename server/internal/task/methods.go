package task

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// Get serves tasks/get.
func (s *Service) Get(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	return resultOf(rec), nil
}

// Cancel serves tasks/cancel: what still runs is told to stop, and its end is decided.
func (s *Service) Cancel(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.changeIfOpen(ctx, rec.TaskID, func(rec *store.TaskRecord) error {
		s.close(rec, mcp.TaskCancelled, "cancelled by the client")
		return nil
	})
}

// changeIfOpen changes the record of a task, unless that has ended.
func (s *Service) changeIfOpen(ctx context.Context, id string, f func(*store.TaskRecord) error) (mcp.Result, error) {
	if _, err := s.change(ctx, id, f); err != nil && !errors.Is(err, errTaskOver) {
		return nil, s.fault(ctx, err)
	}
	return &mcp.EmptyResult{}, nil
}

// Update serves tasks/update: it takes the answers that fit open questions, and
// ignores all others. A question whose answer is malformed stays open.
func (s *Service) Update(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	var params struct {
		InputResponses map[string]jsontext.Value `json:"inputResponses"`
	}
	if err := json.Unmarshal(req.Params, &params); err != nil || params.InputResponses == nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	good, message := s.here(rec.TaskID).sift(rec, params.InputResponses)
	if len(good) == 0 && message == "" {
		return &mcp.EmptyResult{}, nil
	}
	return s.changeIfOpen(ctx, rec.TaskID, func(rec *store.TaskRecord) error {
		for key, answer := range good {
			if _, open := rec.InputRequests[key]; open {
				clientAnswered(rec, key, answer)
			}
		}
		rec.StatusMessage = cmp.Or(message, rec.StatusMessage)
		return nil
	})
}

// find returns the record of a task that the caller may know of.
func (s *Service) find(ctx context.Context, req *middleware.Request) (*store.TaskRecord, error) {
	if err := era.RequireExtension(req, mcp.ExtensionTasks); err != nil {
		return nil, err
	}
	id := era.CoreOf(req).Name
	if id == "" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.taskId is missing")
	}
	rec, err := s.visible(ctx, id, req.Principal.Key())
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	observe.LinkSpan(ctx, rec.Trace)
	return rec, nil
}

// Revisions returns the tasks of which a caller may be told, of those that he names, with
// their revisions.
func (s *Service) Revisions(ctx context.Context, req *middleware.Request, ids []string) (known map[string]int64, err error) {
	if err := era.RequireExtension(req, mcp.ExtensionTasks); err != nil {
		return nil, err
	}
	known = map[string]int64{}
	for _, id := range ids {
		switch rec, err := s.visible(ctx, id, req.Principal.Key()); {
		case err == nil:
			known[id] = rec.Revision
		case !errors.Is(err, store.ErrNoTask):
			return nil, s.fault(ctx, err)
		}
	}
	return known, nil
}
