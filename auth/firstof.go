package auth

import (
	"context"
	"errors"
)

// ErrNotRecognized is matched by the error of an [Authenticator] for a caller that has sent no
// credentials that it knows. Another authenticator may know them; see [FirstOf].
var ErrNotRecognized = errors.New("auth: there are no credentials that this authenticator knows")

// FirstOf returns an [Authenticator] that asks several, in their order, until one recognizes the
// credentials of the caller: the first principal or the first error that is not [ErrNotRecognized]
// decides. If none recognizes them, the error of the last one refuses the caller. An authenticator
// that returns neither a principal nor an error lets the caller in without a principal, so it must be
// the last.
//
// The Authenticator is a [Challenger] if one of them is. Its challenges are those of the first. It is a
// [Reporter], which adds up what those of them have counted that are one. It has a method Unwrap that
// returns them.
func FirstOf(authenticators ...Authenticator) Authenticator {
	all := firstOf(authenticators)
	for _, a := range authenticators {
		if c, ok := a.(Challenger); ok {
			return challengingFirstOf{all, c}
		}
	}
	return all
}

type firstOf []Authenticator

// Unwrap returns the authenticators, so that what one of them has beyond an [Authenticator], such as the
// metadata of a resource server, can be found.
func (all firstOf) Unwrap() []Authenticator { return all }

func (all firstOf) Authenticate(ctx context.Context, caller *Caller) (p *Principal, err error) {
	for _, a := range all {
		if p, err = a.Authenticate(ctx, caller); !errors.Is(err, ErrNotRecognized) {
			return p, err
		}
	}
	return nil, err
}

// Stats implements [Reporter].
func (all firstOf) Stats() (sum Stats) {
	for _, a := range all {
		if r, ok := a.(Reporter); ok {
			sum = sum.plus(r.Stats())
		}
	}
	return sum
}

type challengingFirstOf struct {
	firstOf
	Challenger
}
