package ask

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// requireURLs handles an error with [mcp.CodeURLElicitationRequired]. Clients of 2025-11-25 get
// the error; a page without an ElicitationID gets a random one. All other clients are asked to
// open the pages, as [Dialog.Elicit] asks, each time the handler returns the error, until the
// user declines. An error whose data cannot be decoded is the server's fault. requireURLs returns
// all other errors as they are.
func (d *Dialog) requireURLs(err error) error {
	rpc, _ := mcp.AsError(err)
	if rpc == nil || rpc.Code != mcp.CodeURLElicitationRequired {
		return err
	}
	list, fault := d.pagesOf(rpc)
	if fault != nil {
		return era.Fault{Err: fmt.Errorf("server: the data of the error %q (%d): %w", rpc.Message, rpc.Code, fault)}
	}
	need := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &struct{}{}}}
	if d.Request.Peer.Era == mcp.Legacy && d.Request.Peer.Version.AtLeast(mcp.Version20251125) {
		if missing, lacks := era.Askable(d.Request).Lacks(need); lacks {
			return fmt.Errorf("%s: %w", rpc.Message, &mcp.NotDeclaredError{Missing: missing})
		}
		for i := range list {
			p := &list[i]
			p.ElicitationID = cmp.Or(p.ElicitationID, rand.Text())
			d.Asker.pages.add(d.Core, p.ElicitationID)
		}
		return rpc.WithData(mcp.URLElicitationRequiredData{Elicitations: list})
	}
	var errs []error
	for i, p := range list {
		key := fmt.Sprintf("urlElicitationRequired/%d", i)
		if in, modern := d.open().(*modern); modern && in.load() == nil && in.refusedPage(key) {
			return mcp.NewError(mcp.CodeInvalidRequest, "%s: the user has refused", rpc.Message)
		}
		p.ElicitationID = ""
		_, err := d.Ask(key, need, Question{
			InputRequest: mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: &p},
			Check:        func(jsontext.Value, bool) error { return errPageNotDone },
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// errPageNotDone says that the handler still asks for the page, so that an earlier answer does
// not count.
var errPageNotDone = errors.New("server: the user is not done with the page")

// pagesOf decodes the data of an error that asks for pages.
func (d *Dialog) pagesOf(rpc *mcp.Error) ([]mcp.ElicitParams, error) {
	raw, err := wire.Marshal(nil, rpc.Data)
	if err != nil {
		return nil, err
	}
	var data mcp.URLElicitationRequiredData
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	if len(data.Elicitations) == 0 {
		return nil, errors.New("there is no elicitation in it")
	}
	for i := range data.Elicitations {
		p := &data.Elicitations[i]
		if p.Mode != mcp.ElicitURL {
			return nil, errors.New("an elicitation must be of mode url")
		}
		if _, err := d.Asker.forms.check(p); err != nil {
			return nil, err
		}
	}
	return data.Elicitations, nil
}

// refusedPage reports whether the user has declined to open the page of a key.
func (r *rounds) refusedPage(key string) bool {
	r.mu.Lock()
	a, answered := r.answers[key]
	r.mu.Unlock()
	if !answered {
		return false
	}
	said, err := decodeElicited(a.Value, false)
	return err == nil && said.Action != mcp.ElicitAccept
}

// PageDone tells the clients of 2025-11-25 that were asked to open a page that the user is done
// with it. A client is told once.
func (a *Asker) PageDone(ctx context.Context, id string) error {
	params := append(wire.AppendString([]byte(`{"elicitationId":`), id), '}')
	var errs []error
	for sess, asked := range a.pages.find(id) {
		if err := tellPage(ctx, sess, asked.Value(), params); err != nil {
			errs = append(errs, err)
			continue
		}
		a.pages.done(sess, id)
	}
	return errors.Join(errs...)
}

// tellPage tells a client on the stream of its request if that is still open, else on the stream
// of its session. r may be nil.
func tellPage(ctx context.Context, sess *session.Session, r *session.Request, params []byte) error {
	if r != nil && !r.Settled() && r.TakesNotifications() && r.Notify(mcp.NotificationElicitationComplete, params, "") == nil {
		return nil
	}
	return sess.Notify(ctx, mcp.NotificationElicitationComplete, params, "")
}

// notePage notes the page of an elicitation that a handler sends with CallClient.
func (d *Dialog) notePage(params jsontext.Value) {
	var p mcp.ElicitParams
	if d.Request.Peer.Version.AtLeast(mcp.Version20251125) && json.Unmarshal(params, &p) == nil && p.ElicitationID != "" {
		d.Asker.pages.add(d.Core, p.ElicitationID)
	}
}
