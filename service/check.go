package service

import (
	"context"
	"errors"
	"fmt"
)

// checkConfig checks what can only be told when the server is made: what the issuers of tokens say of
// themselves. It prints what it has checked. The settings and the files that they name are good when it
// is called.
func (p *process) checkConfig(ctx context.Context) error {
	var errs []error
	report := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("service: %w", err))
			return
		}
		fmt.Fprintln(p.stdout, "ok:", what)
	}
	report("the settings, and the files that they name", nil)
	if p.access.resource != nil {
		report("the metadata and the keys of the issuers", p.access.resource.Check(ctx))
	}
	return errors.Join(errs...)
}
