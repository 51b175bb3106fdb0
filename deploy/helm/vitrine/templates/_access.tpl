{{/* Whether tokens of an issuer say who calls, and for which resource they are. */}}
{{- define "vitrine.resource" -}}
{{- with .Values.oauth -}}
{{- if .resource -}}
{{- .resource -}}
{{- else if and $.Values.httpRoute.enabled $.Values.httpRoute.hostnames -}}
{{- printf "https://%s%s" (first $.Values.httpRoute.hostnames) $.Values.path -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The variables about who calls, what they may do, and the record of it. */}}
{{- define "vitrine.accessEnv" -}}
{{- with .Values.oauth }}
{{- if .issuers }}
- name: VITRINE_OAUTH_ISSUER
  value: {{ join "," .issuers | quote }}
- name: VITRINE_OAUTH_RESOURCE
  value: {{ include "vitrine.resource" $ | quote }}
{{- with .scopes }}
- name: VITRINE_OAUTH_SCOPES
  value: {{ join "," . | quote }}
{{- end }}
{{- if .introspection.client }}
- name: VITRINE_OAUTH_INTROSPECTION_CLIENT
  value: {{ .introspection.client | quote }}
- name: VITRINE_OAUTH_INTROSPECTION_SECRET_FILE
  value: {{ printf "/etc/vitrine/introspection/%s" .introspection.secretKey | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.tls }}
{{- if .secretName }}
- name: VITRINE_TLS_CERT
  value: /etc/vitrine/tls/tls.crt
- name: VITRINE_TLS_KEY
  value: /etc/vitrine/tls/tls.key
{{- end }}
{{- if .clientCASecretName }}
- name: VITRINE_TLS_CLIENT_CA
  value: /etc/vitrine/client-ca/ca.crt
{{- end }}
{{- end }}
{{- if include "vitrine.policyConfigMap" . }}
- name: VITRINE_POLICY
  value: /etc/vitrine/policy/policy.yaml
{{- if .Values.policy.dryRun }}
- name: VITRINE_POLICY_DRY_RUN
  value: "true"
{{- end }}
{{- end }}
{{- with .Values.audit }}
{{- if .enabled }}
- name: VITRINE_AUDIT_FILE
  value: /var/log/vitrine/audit.jsonl
- name: VITRINE_AUDIT_MAX_SIZE
  value: {{ .maxSizeMiB | quote }}
- name: VITRINE_AUDIT_MAX_FILES
  value: {{ .maxFiles | quote }}
{{- if .keySecretName }}
- name: VITRINE_AUDIT_KEY_FILE
  value: {{ printf "/etc/vitrine/audit-key/%s" .keySecretKey | quote }}
{{- end }}
{{- if .strict }}
- name: VITRINE_AUDIT_STRICT
  value: "true"
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The ConfigMap with the rules, or nothing if there are none. */}}
{{- define "vitrine.policyConfigMap" -}}
{{- if .Values.policy.configMapName -}}
{{- .Values.policy.configMapName -}}
{{- else if .Values.policy.rules -}}
{{- printf "%s-policy" (include "vitrine.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* A Secret as a volume, mounted as a folder, so that a new content reaches the pods without a restart. */}}
{{- define "vitrine.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 288 # 0440
    items:
      {{- range .keys }}
      - key: {{ . | quote }}
        path: {{ . | quote }}
      {{- end }}
{{- end -}}

{{/* What these variables name, as YAML with mounts and volumes. */}}
{{- define "vitrine.accessVolumes" -}}
{{- $secrets := list -}}
{{- with .Values.oauth.introspection -}}
{{- if and $.Values.oauth.issuers .client -}}
{{- $secrets = append $secrets (dict "name" "introspection" "secret" .secretName "keys" (list .secretKey)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.tls.secretName -}}
{{- $secrets = append $secrets (dict "name" "tls" "secret" . "keys" (list "tls.crt" "tls.key")) -}}
{{- end -}}
{{- with .Values.tls.clientCASecretName -}}
{{- $secrets = append $secrets (dict "name" "client-ca" "secret" . "keys" (list "ca.crt")) -}}
{{- end -}}
{{- with .Values.audit -}}
{{- if and .enabled .keySecretName -}}
{{- $secrets = append $secrets (dict "name" "audit-key" "secret" .keySecretName "keys" (list .keySecretKey)) -}}
{{- end -}}
{{- end -}}
{{- $policy := include "vitrine.policyConfigMap" . -}}
mounts:
  {{- range $secrets }}
  - {name: {{ .name }}, mountPath: /etc/vitrine/{{ .name }}, readOnly: true}
  {{- end }}
  {{- if $policy }}
  - {name: policy, mountPath: /etc/vitrine/policy, readOnly: true}
  {{- end }}
  {{- if .Values.audit.enabled }}
  - {name: audit, mountPath: /var/log/vitrine}
  {{- end }}
volumes:
  {{- range $secrets }}
  {{- include "vitrine.secretVolume" . | nindent 2 }}
  {{- end }}
  {{- if $policy }}
  - name: policy
    configMap:
      name: {{ $policy }}
      items: [{key: policy.yaml, path: policy.yaml}]
  {{- end }}
  {{- with .Values.audit }}
  {{- if .enabled }}
  {{- $room := dict "emptyDir" (dict "sizeLimit" (printf "%dMi" (mul .maxSizeMiB (add .maxFiles 2)))) }}
  - name: audit
    {{- toYaml (.volume | default $room) | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* What the schema cannot say of it. */}}
{{- define "vitrine.checkAccess" -}}
{{- with .Values.oauth -}}
{{- if and .issuers (not (include "vitrine.resource" $)) -}}
{{- fail "oauth.resource: name the URL of the endpoint for clients, which tokens must be for" -}}
{{- end -}}
{{- if and .introspection.client (not (and .issuers .introspection.secretName)) -}}
{{- fail "oauth.introspection.client: it needs oauth.issuers and oauth.introspection.secretName" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.clientCASecretName (not .Values.tls.secretName) -}}
{{- fail "tls.clientCASecretName: client certificates need TLS: name tls.secretName" -}}
{{- end -}}
{{- with .Values.policy -}}
{{- if and .rules .configMapName -}}
{{- fail "policy.rules: policy.configMapName names the rules already" -}}
{{- end -}}
{{- if and .rules (not (hasKey (fromYaml .rules) "default")) -}}
{{- fail "policy.rules: the text has no default" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.audit.enabled (hasKey .Values.audit.volume "persistentVolumeClaim") (or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) .Values.legacyPool.enabled) -}}
{{- fail "audit.volume: several pods would write one file: use {ephemeral: …}, which gives each its own claim, or one replica" -}}
{{- end -}}
{{- end -}}
