package e2e

import "encoding/base64"

// sealed has a server seal the ids of its sessions.
var sealed = withEnv("VITRINE_STATE_KEYS=" + base64.StdEncoding.EncodeToString([]byte("a key of tests with 32 bytes or more")))
