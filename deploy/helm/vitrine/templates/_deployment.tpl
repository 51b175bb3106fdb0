{{/*
A Deployment of the server. Takes a dict: root, component, name, replicas (nil leaves
them to an autoscaler).
*/}}
{{- define "vitrine.deployment" -}}
{{- $root := .root -}}
{{- with $root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $.name }}
  labels:
    {{- include "vitrine.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.component }}
spec:
  {{- if not (kindIs "invalid" $.replicas) }}
  replicas: {{ $.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "vitrine.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $.component }}
  strategy:
    {{- if and .Values.audit.enabled (hasKey .Values.audit.volume "persistentVolumeClaim") }}
    type: Recreate {{- /* a new pod cannot open the file of the audit while the old one writes to it */}}
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "vitrine.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "vitrine.serviceAccount" . }}
      automountServiceAccountToken: false
      enableServiceLinks: false # their variables would begin with VITRINE_, too
      terminationGracePeriodSeconds: {{ include "vitrine.terminationGracePeriod" . }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: vitrine
          image: {{ include "vitrine.image" . | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          {{- with .Values.args }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: VITRINE_ADDR
              value: ":8080"
            - name: VITRINE_ADMIN_ADDR
              value: ":9464"
            - name: VITRINE_PATH
              value: {{ .Values.path | quote }}
            - name: VITRINE_ALLOWED_HOSTS
              value: {{ include "vitrine.allowedHosts" . | quote }}
            {{- with .Values.allowedOrigins }}
            - name: VITRINE_ALLOWED_ORIGINS
              value: {{ join "," . | quote }}
            {{- end }}
            {{- if .Values.stateKeys.enabled }}
            - name: VITRINE_STATE_KEYS_FILE
              value: {{ printf "/etc/vitrine/state-keys/%s" .Values.stateKeys.secretKey | quote }}
            {{- end }}
            {{- if .Values.adminToken.secretName }}
            - name: VITRINE_ADMIN_TOKEN_FILE
              value: {{ printf "/etc/vitrine/admin-token/%s" .Values.adminToken.secretKey | quote }}
            {{- end }}
            {{- with .Values.files.root }}
            - name: VITRINE_ROOT # of the demonstration, and nothing to others
              value: {{ . | quote }}
            {{- end }}
            {{- with .Values.shutdown }}
            - name: VITRINE_SHUTDOWN_DELAY
              value: {{ .delaySeconds }}s
            - name: VITRINE_DRAIN_TIMEOUT
              value: {{ .drainSeconds }}s
            - name: VITRINE_CLEANUP_GRACE
              value: {{ .cleanupSeconds }}s
            - name: VITRINE_HOOK_GRACE
              value: {{ .hookSeconds }}s
            - name: VITRINE_LINGER_TIMEOUT
              value: {{ .lingerSeconds }}s
            - name: VITRINE_FLUSH_TIMEOUT
              value: {{ .flushSeconds }}s
            {{- end }}
            {{- range $name, $value := .Values.settings }}
            - name: VITRINE_{{ $name | upper | replace "-" "_" }}
              value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | toString | quote }}
            {{- end }}
            {{- if not (hasKey .Values.settings "max-memory") }}
            {{- with include "vitrine.maxMemory" . }}
            - name: VITRINE_MAX_MEMORY # of the memory limit
              value: {{ . | quote }}
            {{- end }}
            {{- end }}
            - name: OTEL_RESOURCE_ATTRIBUTES
              value: k8s.namespace.name=$(POD_NAMESPACE),k8s.pod.name=$(POD_NAME)
            {{- with .Values.telemetry.tracesEndpoint }}
            - name: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
              value: {{ . | quote }}
            {{- end }}
            {{- with .Values.store }}
            {{- if .secretName }}
            - name: VITRINE_STORE # has a password
              valueFrom:
                secretKeyRef:
                  name: {{ .secretName }}
                  key: {{ .secretKey | quote }}
            {{- end }}
            {{- end }}
            {{- with include "vitrine.accessEnv" . }}
            {{- . | trim | nindent 12 }}
            {{- end }}
            {{- with .Values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: http
              containerPort: 8080
            - name: admin
              containerPort: 9464
          {{- $tls := .Values.tls.secretName }}
          {{- with .Values.probes }}
          startupProbe:
            httpGet:
              path: /livez
              port: admin
              {{- if $tls }}
              scheme: HTTPS
              {{- end }}
            periodSeconds: 1
            failureThreshold: {{ .startupSeconds }}
          readinessProbe:
            httpGet:
              path: /readyz
              port: admin
              {{- if $tls }}
              scheme: HTTPS
              {{- end }}
            periodSeconds: {{ .readinessSeconds }}
            failureThreshold: 2
          livenessProbe:
            httpGet:
              path: /livez
              port: admin
              {{- if $tls }}
              scheme: HTTPS
              {{- end }}
            periodSeconds: {{ .livenessSeconds }}
            timeoutSeconds: 5
            failureThreshold: 3
          {{- end }}
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- $access := include "vitrine.accessVolumes" . | fromYaml }}
          {{- if or .Values.stateKeys.enabled .Values.adminToken.secretName .Values.files.root $access.volumes }}
          volumeMounts:
            {{- if .Values.stateKeys.enabled }}
            - name: state-keys
              mountPath: /etc/vitrine/state-keys
              readOnly: true
            {{- end }}
            {{- if .Values.adminToken.secretName }}
            - name: admin-token
              mountPath: /etc/vitrine/admin-token
              readOnly: true
            {{- end }}
            {{- with .Values.files.root }}
            - name: files
              mountPath: {{ . | quote }}
              readOnly: true
            {{- end }}
            {{- with $access.mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
      {{- if or .Values.stateKeys.enabled .Values.adminToken.secretName .Values.files.root $access.volumes }}
      volumes:
        {{- if .Values.stateKeys.enabled }}
        # Without the Secret, or without this key in it, the pod does not start, and its
        # events say so.
        - name: state-keys
          secret:
            secretName: {{ include "vitrine.stateKeysSecret" . }}
            defaultMode: 288 # 0440
            items:
              - key: {{ .Values.stateKeys.secretKey | quote }}
                path: {{ .Values.stateKeys.secretKey | quote }}
        {{- end }}
        {{- if .Values.adminToken.secretName }}
        # Mounted as a folder, so that a new token reaches the pods without a restart.
        - name: admin-token
          secret:
            secretName: {{ .Values.adminToken.secretName }}
            defaultMode: 288 # 0440
            items:
              - key: {{ .Values.adminToken.secretKey | quote }}
                path: {{ .Values.adminToken.secretKey | quote }}
        {{- end }}
        {{- if .Values.files.root }}
        - name: files
          {{- toYaml (.Values.files.volume | default (dict "emptyDir" dict)) | nindent 10 }}
        {{- end }}
        {{- with $access.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- else }}
      topologySpreadConstraints:
        {{- range list (list "topology.kubernetes.io/zone" .Values.topologySpread.zones) (list "kubernetes.io/hostname" .Values.topologySpread.nodes) }}
        - maxSkew: 1
          topologyKey: {{ first . }}
          whenUnsatisfiable: {{ last . }}
          matchLabelKeys: [pod-template-hash] # the pods of a new release are spread among themselves
          labelSelector:
            matchLabels:
              {{- include "vitrine.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $.component }}
        {{- end }}
      {{- end }}
{{- end }}
{{- end -}}
