{{/* The name of the objects. */}}
{{- define "vitrine.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- end -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that never change, by which objects find each other. */}}
{{- define "vitrine.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "vitrine.labels" -}}
{{ include "vitrine.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Whether the Service keeps a client's address on one pod: with a store any pod serves a session. */}}
{{- define "vitrine.sessionAffinity" -}}
{{- .Values.service.sessionAffinity | default (ternary "None" "ClientIP" (ne .Values.store.secretName "")) -}}
{{- end -}}

{{/* A Service keeps a client's address on one pod. */}}
{{- define "vitrine.affinity" -}}
sessionAffinity: ClientIP
sessionAffinityConfig:
  clientIP:
    timeoutSeconds: {{ .Values.service.sessionAffinitySeconds }}
{{- end -}}

{{- define "vitrine.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "vitrine.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "vitrine.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "vitrine.stateKeysSecret" -}}
{{- .Values.stateKeys.secretName | default (printf "%s-state-keys" (include "vitrine.fullname" .)) -}}
{{- end -}}

{{/*
The names that the Host header may have. The route's come first, so that kustomize can
replace the first one. The kubelet puts in the namespace.
*/}}
{{- define "vitrine.allowedHosts" -}}
{{- $name := include "vitrine.fullname" . -}}
{{- $hosts := list $name (printf "%s.$(POD_NAMESPACE)" $name) (printf "%s.$(POD_NAMESPACE).svc" $name) (printf "%s.$(POD_NAMESPACE).svc.cluster.local" $name) -}}
{{- if .Values.httpRoute.enabled -}}
{{- $hosts = concat .Values.httpRoute.hostnames $hosts -}}
{{- end -}}
{{- concat $hosts .Values.allowedHosts | uniq | join "," -}}
{{- end -}}

{{/*
How long the kubelet waits before it kills: longer than the longest shutdown, of which
docs/limits.md has the sum. Cancelled handlers have the cleanup grace, last answers a
fifth of it, and open connections all of it once more, on each of the two listeners.
Requests are refused from the beginning of the drain on.
*/}}
{{- define "vitrine.terminationGracePeriod" -}}
{{- $refuse := include "vitrine.seconds" (dict "name" "settings.refuse-time" "text" (dig "refuse-time" "" .Values.settings)) -}}
{{- with .Values.shutdown -}}
{{- addf .delaySeconds (maxf .drainSeconds $refuse) (mulf 3.2 .cleanupSeconds) .hookSeconds .lingerSeconds .flushSeconds .marginSeconds | ceil | int64 -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a time as Go writes it, such as 1m30s. Takes a dict: name, text. */}}
{{- define "vitrine.seconds" -}}
{{- $units := dict "h" 3600 "m" 60 "s" 1 "ms" 1e-3 "us" 1e-6 "µs" 1e-6 "ns" 1e-9 -}}
{{- $text := toString .text -}}
{{- $parts := regexFindAll "([0-9]+([.][0-9]*)?|[.][0-9]+)(h|ms|us|µs|ns|m|s)" $text -1 -}}
{{- if and (ne $text "0") (ne $text (join "" $parts)) -}}
{{- fail (printf "%s: %s is not a time such as 60s or 1m30s" .name $text) -}}
{{- end -}}
{{- $sum := 0.0 -}}
{{- range $parts -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $sum = addf $sum (mulf (float64 $number) (get $units (trimPrefix $number .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/*
--max-memory, or nothing without a memory limit. There is nothing either if it would be less than
the least limits need, 171.5 MiB: the server reads the limit then, takes the least limits, and warns.
*/}}
{{- define "vitrine.maxMemory" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- if $limit -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $limit -}}
{{- $unit := trimPrefix $number $limit -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "resources.limits.memory: %s is not a size such as 512Mi or 1Gi" $limit) -}}
{{- end -}}
{{- $bytes := divf (mulf (float64 $number) (get $units $unit) .Values.memoryLimitPercent) 100 | floor | int64 -}}
{{- if ge $bytes 179732480 -}}{{- $bytes -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "vitrine.check" -}}
{{- include "vitrine.checkAccess" . -}}
{{- if not .Values.stateKeys.enabled -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) .Values.legacyPool.enabled -}}
{{- fail "several replicas need the same state keys: leave stateKeys.enabled true and make the Secret, or set replicaCount: 1 without autoscaling and legacyPool" -}}
{{- end -}}
{{- end -}}
{{- if .Values.store.secretName -}}
{{- if not .Values.stateKeys.enabled -}}
{{- fail "store.secretName: replicas with a store need the same state keys: leave stateKeys.enabled true and make its Secret" -}}
{{- end -}}
{{- if .Values.legacyPool.enabled -}}
{{- fail "legacyPool.enabled: with store.secretName any replica serves legacy sessions, and the route sends them to all: leave it false" -}}
{{- end -}}
{{- end -}}
{{- if ge (mulf 2 .Values.probes.readinessSeconds) (float64 .Values.shutdown.delaySeconds) -}}
{{- fail (printf "probes.readinessSeconds: the server refuses requests %v s after it said \"not ready\" (shutdown.delaySeconds), and two probes that fail take %v s: probe more often, or make the delay longer" .Values.shutdown.delaySeconds (mulf 2 .Values.probes.readinessSeconds)) -}}
{{- end -}}
{{- with .Values.serviceMonitor -}}
{{- $linger := float64 $.Values.shutdown.lingerSeconds -}}
{{- if and .enabled (gt $linger 0.0) (le $linger (include "vitrine.seconds" (dict "name" "serviceMonitor.interval" "text" .interval) | float64)) -}}
{{- fail (printf "shutdown.lingerSeconds: a process that ends waits %v s for a last scrape, and %s are between two (serviceMonitor.interval): wait longer, scrape more often, or do not wait (0)" $linger .interval) -}}
{{- end -}}
{{- end -}}
{{- with .Values.files.root -}}
{{- if hasPrefix (printf "%s/" (clean . | trimSuffix "/")) "/etc/vitrine/state-keys/" -}}
{{- fail (printf "files.root: the state keys are below %s" .) -}}
{{- end -}}
{{- if hasPrefix (printf "%s/" (clean . | trimSuffix "/")) "/etc/vitrine/admin-token/" -}}
{{- fail (printf "files.root: the admin token is below %s" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.prometheusRule.rules -}}
{{- if not (hasKey (fromYaml .) "groups") -}}
{{- fail "prometheusRule.rules: the text has no groups of rules" -}}
{{- end -}}
{{- end -}}
{{- if .Values.httpRoute.enabled -}}
{{- if not .Values.httpRoute.parentRefs -}}
{{- fail "httpRoute.parentRefs: name the gateway" -}}
{{- end -}}
{{- if not (or .Values.httpRoute.hostnames .Values.allowedHosts) -}}
{{- fail "httpRoute.hostnames: name the host, or the server refuses its requests (allowedHosts names further ones)" -}}
{{- end -}}
{{- else if .Values.legacyPool.enabled -}}
{{- fail "legacyPool.enabled: without httpRoute.enabled nothing leads to it" -}}
{{- end -}}
{{- end -}}
