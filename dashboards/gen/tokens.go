package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// tokens has the panels of what verifies access tokens. They are empty without an issuer.
func (b board) tokens() []panel {
	return []panel{
		graph("Access tokens", "Tokens that were looked at: verified before (cache), here (jwt) or by their issuer. Refusals by reason are above.", "ops", never(),
			query(b.rate("method, result", telemetry.MetricAuthVerifications)+" > 0", "{{method}} {{result}}")),
		graph("Verification, p95", "Time that the verification of a token took that was not verified before.", "s", rising(0.5, 2),
			query(b.quantile(0.95, "method", telemetry.MetricAuthVerification), "{{method}}")),
		graph("Fetches of keys", "By issuer, what they were for and what came of them. too_soon was not fetched: unknown key ids come often.", "ops", never(),
			query(b.rate("issuer, cause, result", telemetry.MetricAuthKeyRefreshes)+" > 0", "{{issuer}} {{cause}} {{result}}")),
		graph("Age of the keys", "Time since the keys of an issuer were fetched. They are fetched every 10 minutes, and used for 24 hours while the issuer is down.", "s", rising(1200, 43200),
			query("max by (instance, issuer) ("+b.of(telemetry.MetricAuthKeysAge)+")", "{{instance}} {{issuer}}")),
		graph("Keys of issuers", "Keys that verify tokens.", "none", never(),
			query("min by (instance, issuer) ("+b.of(telemetry.MetricAuthKeys)+")", "{{instance}} {{issuer}}")),
		graph("Remembered tokens", "Verified tokens that are remembered, and those a second that had to leave for others.", "none", never(),
			query(b.now("instance", telemetry.MetricAuthCachedTokens), "{{instance}}"),
			query(b.rate("", telemetry.MetricAuthEvictions), "evicted")),
	}
}
