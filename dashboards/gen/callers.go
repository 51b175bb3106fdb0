package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// callers returns the alerts about who calls, and what callers may do.
func callers(c *config, s source) []rule {
	return []rule{issuerUnreachable(c, s), keysOld(c, s), tokensRefused(c, s), policyStale(c, s), stateKeysStale(c, s), credentialsStale(c, s), certificateExpires(c, s)}
}

// issuerUnreachable alerts on tokens that nobody can judge. Their callers are refused with 503.
func issuerUnreachable(c *config, s source) rule {
	return rule{
		Alert: "VitrineIssuerUnreachable",
		Expr:  byInstance + "(increase(" + s.of(telemetry.MetricAuthVerifications, is("result", "unavailable")) + "[5m])) > 0",
		For:   "2m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("16-the-issuer-is-down",
			"{{ $labels.instance }} refuses callers because it cannot ask their issuer",
			"{{ $value | humanize }} in five minutes got 503. The log says why: oauth.issuer_failed."),
	}
}

// keysOld alerts on keys that were not fetched for three times as long as they should. Callers notice
// nothing until the issuer signs with a new key, or the keys are too old to be used.
func keysOld(c *config, s source) rule {
	return rule{
		Alert: "VitrineKeysOld",
		Expr:  "max by (namespace, job, instance, issuer) (" + s.of(telemetry.MetricAuthKeysAge) + ") > 1800",
		For:   "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("16-the-issuer-is-down",
			"{{ $labels.instance }} has fetched the keys of {{ $labels.issuer }} {{ $value | humanizeDuration }} ago",
			"They are fetched every 10 minutes, and used for 24 hours. The log says why not: oauth.issuer_failed."),
	}
}

// tokensRefused alerts on tokens that are refused far more often than on other days: an issuer, an
// audience or a clock has changed, or somebody tries tokens. A first request without a token is how
// clients begin.
func tokensRefused(c *config, s source) rule {
	refused := s.of(telemetry.MetricRefusals, matcher{"reason", "=~", []string{"token_.*"}}, isNot("reason", "token_missing"))
	const by = "sum by (namespace, job, reason) "
	return rule{
		Alert: "VitrineTokensRefused",
		Expr: fmt.Sprintf("%[1]s(rate(%[2]s[10m]))\n  > 5 * %[1]s(rate(%[2]s[1d]))\nand %[1]s(rate(%[2]s[10m])) * 600 >= 100", by,
			refused),
		For: "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("14-everybody-gets-401",
			"{{ $labels.job }} refuses far more tokens than on other days: {{ $labels.reason }}",
			"{{ $value | humanize }} a second. The log names the callers: caller.refused."),
	}
}

// policyStale alerts on a file of rules with a mistake. The rules from before decide on; a process that
// starts now would end.
func policyStale(c *config, s source) rule {
	return rule{
		Alert: "VitrinePolicyStale",
		Expr:  byInstance + "(" + s.of(telemetry.MetricPolicyStale) + ") > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("15-one-client-gets-403",
			"{{ $labels.instance }} does not use the present file of rules, because it has a mistake",
			"The rules from before decide on. A process that starts with this file ends. The log says what is wrong: policy.reload."),
	}
}

// stateKeysStale alerts on a file of state keys that is not in use. The replicas have different keys then, if
// the others could read it.
func stateKeysStale(c *config, s source) rule {
	return rule{
		Alert: "VitrineStateKeysStale",
		Expr:  byInstance + "(" + s.of(telemetry.MetricStateKeysStale) + ") > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"{{ $labels.instance }} does not use the present file of state keys, because it has a mistake or cannot be read",
			"The keys from before stay in use. A process that starts with this file ends. The log says what is wrong: state_keys.reload."),
	}
}

// credentialsStale alerts on a renewed certificate, or new tokens, that are not in use. Callers notice
// nothing until the old ones expire, or the process starts anew.
func credentialsStale(c *config, s source) rule {
	return rule{
		Alert: "VitrineCredentialsStale",
		Expr:  "sum by (namespace, job, instance, kind) (" + s.of(telemetry.MetricCredentialsStale) + ") > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"{{ $labels.instance }} does not use the present files with credentials ({{ $labels.kind }}), because they have a mistake or cannot be read",
			"What was read before stays in use. A process that starts with these files ends. The log says what is wrong: tls.reload, admin.token or auth.tokens."),
	}
}

// certificateExpires alerts on a certificate whose renewal does not happen any more.
func certificateExpires(c *config, s source) rule {
	return rule{
		Alert: "VitrineCertificateExpires",
		Expr: fmt.Sprintf("min by (namespace, job, instance) (%s) - time() < %v", s.of(telemetry.MetricCertificateExpiry),
			int64(c.CertificateLeft.Seconds())),
		For: "15m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"The certificate of {{ $labels.instance }} {{ if gt $value 0.0 }}expires in {{ $value | humanizeDuration }}{{ else }}has expired{{ end }}",
			"Its renewal has failed, or the new certificate is not in the files of --tls-cert and --tls-key. There it needs no restart."),
	}
}
