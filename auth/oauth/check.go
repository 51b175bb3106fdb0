package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Check fetches the metadata and the keys of all issuers, and asks the introspection about a token
// that does not exist. The error says what is wrong with each issuer, and what to change.
func (s *ResourceServer) Check(ctx context.Context) error {
	s.start.Do(s.keepFresh)
	var errs []error
	for _, name := range s.cfg.Issuers {
		if err := s.issuers[name].check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("oauth: issuer %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (i *issuer) check(ctx context.Context) error {
	if err := i.refresh(ctx, causeCheck); err != nil {
		return err
	}
	introspection := i.s.cfg.Introspection
	asked := introspection != nil && introspection.Issuer == i.name
	if set := i.keys.Load(); len(set.all) == 0 && !asked {
		return fmt.Errorf("%s has no key that can be used (%d were ignored): it needs one for %s",
			i.metadata.Load().JWKSURI, set.ignored, strings.Join(i.s.cfg.Algorithms, ", "))
	}
	if !asked {
		return nil
	}
	endpoint, err := i.introspectionEndpoint(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, i.s.cfg.Timeout)
	defer cancel()
	_, err = i.s.post(ctx, endpoint, "check")
	if answer, ok := errors.AsType[*statusError](err); ok && (answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden) {
		return fmt.Errorf("introspection: %w: are Introspection.ClientID and ClientSecret right?", err)
	}
	if err != nil {
		return fmt.Errorf("introspection: %w", err)
	}
	return nil
}
