package oauth

import (
	"crypto/sha256"
	"hash"
	"sync"
)

// A digest stands for a token. No token is kept.
type digest [sha256.Size]byte

// A digester computes digests. The plain version, sha256.Sum256 of the token as bytes, copies the
// token to the heap for each request.
type digester struct {
	hash hash.Hash
	part [512]byte // of the token
	sum  digest
}

var digesters = sync.Pool{New: func() any { return &digester{hash: sha256.New()} }}

// digestOf returns the digest of a token. It does not allocate.
func digestOf(token string) digest {
	d := digesters.Get().(*digester)
	defer digesters.Put(d)
	d.hash.Reset()
	for len(token) > 0 {
		n := copy(d.part[:], token)
		_, _ = d.hash.Write(d.part[:n]) // never fails
		token = token[n:]
	}
	clear(d.part[:])
	d.hash.Sum(d.sum[:0])
	return d.sum
}
