package telemetry

import (
	"maps"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Bounds of the labels of refusals, which a program may make up for each request: how many
// pairs of reason and refuser are told apart, and the bytes of each text.
const (
	maxRefusals    = 64
	maxRefusalText = 64
)

// refuse counts the refusal that an error stands for, if it does. The caller must hold
// k.mu.
func (k *tracker) refuse(err *mcp.Error) {
	refusal, ok := mcp.AsRefusal(err)
	if !ok {
		return
	}
	reason, by := logline.Printable(refusal.Reason, maxRefusalText), logline.Printable(refusal.By, maxRefusalText)
	if _, known := k.own.Refused[reason][by]; !known {
		pairs := 0
		for _, refusers := range k.own.Refused {
			pairs += len(refusers)
		}
		if pairs >= maxRefusals {
			reason, by = other, other
		}
	}
	if k.own.Refused[reason] == nil {
		k.own.Refused[reason] = map[string]uint64{}
	}
	k.own.Refused[reason][by]++
}

// refused copies the counts. The caller must hold k.mu.
func (k *tracker) refused() map[string]map[string]uint64 {
	copied := make(map[string]map[string]uint64, len(k.own.Refused))
	for reason, refusers := range k.own.Refused {
		copied[reason] = maps.Clone(refusers)
	}
	return copied
}
