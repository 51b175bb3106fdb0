package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
)

// maxKeyFile bounds the size of a file with a key.
const maxKeyFile = 4 << 10

// ReadKey reads a key from a file: hexadecimal or base64 text, as `openssl rand -hex 32` writes it, or
// else the bytes as they are.
func ReadKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("audit: key: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("audit: key: %s has %d bytes, which is no key", path, len(data))
	}
	key := decodeKey(data)
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("%w: %s", err, path)
	}
	return key, nil
}

// decodeKey returns the key that a file holds.
func decodeKey(data []byte) []byte {
	text := string(bytes.TrimSpace(data))
	if key, err := hex.DecodeString(text); err == nil {
		return key
	}
	if key, err := base64.StdEncoding.DecodeString(text); err == nil {
		return key
	}
	if bytes.HasSuffix(data, []byte("\n")) {
		return []byte(text)
	}
	return data
}
