package service

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/middleware"
)

// rateLimitsValue returns the value of the setting with the rate limits, such as
// "calls 100/1m burst 20 per principal methods tools/call; all 1000/1s". "off" has none, and ""
// leaves those of the server.
func rateLimitsValue(field *[]middleware.RateLimit) flag.Value {
	return &value[[]middleware.RateLimit]{field: field, parse: parseRateLimits, format: formatRateLimits}
}

// parseRateLimits reads rate limits, separated by semicolons or new lines.
func parseRateLimits(text string) (limits []middleware.RateLimit, err error) {
	if strings.TrimSpace(text) == off {
		return []middleware.RateLimit{}, nil
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		limit, err := parseRateLimit(strings.Fields(aroundComma.ReplaceAllString(part, ",")))
		if err != nil {
			return nil, fmt.Errorf("%.64q: %w", strings.TrimSpace(part), err)
		}
		limits = append(limits, limit)
	}
	if len(limits) == 0 {
		return nil, nil
	}
	_, err = middleware.RateLimits(limits...)
	return limits, err
}

var aroundComma = regexp.MustCompile(`\s*,\s*`)

var errRateLimit = errors.New("want a name and a rate, and then what it is per and for, such as calls 100/1m burst 20 per principal,tool methods tools/call")

// parseRateLimit reads the words of one rate limit.
func parseRateLimit(words []string) (limit middleware.RateLimit, err error) {
	if len(words) < 2 || len(words)%2 != 0 {
		return limit, errRateLimit
	}
	limit.Name = words[0]
	number, window, found := strings.Cut(words[1], "/")
	if limit.Requests, err = strconv.Atoi(number); err != nil || !found {
		return limit, errRateLimit
	}
	if limit.Window, err = parseWindow(window); err != nil {
		return limit, err
	}
	for i := 2; i < len(words); i += 2 {
		list := strings.Split(words[i+1], ",")
		switch words[i] {
		case "burst":
			if limit.Burst, err = strconv.Atoi(words[i+1]); err != nil {
				return limit, fmt.Errorf("the burst %.64q is no number", words[i+1])
			}
		case "per":
			limit.Per = append(limit.Per, list...)
		case "methods":
			limit.Methods = append(limit.Methods, list...)
		case "tools":
			limit.Tools = append(limit.Tools, list...)
		default:
			return limit, fmt.Errorf("%.64q is none of burst, per, methods and tools", words[i])
		}
	}
	return limit, nil
}

// parseWindow reads the window of a rate: s, m, h or d, or a time such as 10s, 24h or 7d.
func parseWindow(text string) (time.Duration, error) {
	if text != "" && (text[0] < '0' || text[0] > '9') {
		text = "1" + text
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n <= 366 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("the window %.64q is none of s, m, h and d, and no time such as 10s, 24h or 7d", text)
}

// formatRateLimits writes what parseRateLimits reads.
func formatRateLimits(limits []middleware.RateLimit) string {
	if limits != nil && len(limits) == 0 {
		return off
	}
	texts := make([]string, len(limits))
	for i, limit := range limits {
		text := fmt.Sprintf("%s %d/%s", limit.Name, limit.Requests, formatDuration(limit.Window))
		if limit.Burst != 0 {
			text += fmt.Sprintf(" burst %d", limit.Burst)
		}
		for _, list := range []struct {
			word   string
			values []string
		}{{"per", limit.Per}, {"methods", limit.Methods}, {"tools", limit.Tools}} {
			if len(list.values) > 0 {
				text += " " + list.word + " " + strings.Join(list.values, ",")
			}
		}
		texts[i] = text
	}
	return strings.Join(texts, "; ")
}
