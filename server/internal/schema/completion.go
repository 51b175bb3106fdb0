package schema

import (
	"bytes"
	"math/big"

	"github.com/go-json-experiment/json/jsontext"
)

// completed returns a value as it is decoded: with the defaults of the members that are
// missing, and with 2 for 2.0 and 2e0 wherever the shape has an integer. JSON Schema says
// that these are integers; json/v2 does not decode them into one. Everything else stays as
// it is, and so does the whole value if it cannot be read.
func (s *shape) completed(raw jsontext.Value) jsontext.Value {
	var out bytes.Buffer
	c := completion{enc: jsontext.NewEncoder(&out), dec: jsontext.NewDecoder(bytes.NewBuffer(raw))}
	if c.value(s); c.err != nil {
		return raw
	}
	return out.Bytes()
}

// A completion copies one value. After the first error it does nothing.
type completion struct {
	enc *jsontext.Encoder
	dec *jsontext.Decoder
	err error
}

// token copies one token. It is valid until the next one is read.
func (c *completion) token() (token jsontext.Token) {
	if c.err == nil {
		token, c.err = c.dec.ReadToken()
	}
	if c.err == nil {
		c.err = c.enc.WriteToken(token)
	}
	return token
}

func (c *completion) value(s *shape) {
	kind := c.dec.PeekKind()
	if kind == '{' && (s.kind == record || s.kind == dict) || kind == '[' && s.kind == list {
		c.members(s)
		return
	}
	value, err := c.dec.ReadValue()
	if kind == '0' && s.kind == integer && bytes.ContainsAny(value, ".eE") {
		if number, ok := new(big.Rat).SetString(string(value)); ok && number.IsInt() {
			value = []byte(number.Num().String())
		}
	}
	if c.err = err; err == nil {
		c.err = c.enc.WriteValue(value)
	}
}

// members copies an object or an array.
func (c *completion) members(s *shape) {
	c.token()
	given := map[*field]bool{}
	for c.err == nil && c.dec.PeekKind() != '}' && c.dec.PeekKind() != ']' {
		member := s.elem
		if s.kind != list {
			name := c.token()
			if f := s.byName[name.String()]; f != nil {
				member, given[f] = f.shape, true
			} else if s.kind == record { // a form may have been given more than it asks for
				member = &shape{kind: anything}
			}
		}
		if c.err == nil {
			c.value(member)
		}
	}
	for _, f := range s.fields {
		if c.err == nil && f.preset != nil && !given[f] {
			if c.err = c.enc.WriteToken(jsontext.String(f.name)); c.err == nil {
				c.err = c.enc.WriteValue(f.preset)
			}
		}
	}
	c.token()
}
