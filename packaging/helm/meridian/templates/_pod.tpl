{{/* The pod of a gateway. Its file is mounted as a folder, because a file mounted with subPath never
     changes. */}}
{{- define "meridian.pod" -}}
{{- $all := include "meridian.config" . | fromYaml -}}
{{- $scheme := dig "admin_access" "tls" nil $all | empty | ternary "HTTP" "HTTPS" -}}
metadata:
  labels:
    # Without the chart's version, which would replace the pods at each upgrade.
    {{- include "meridian.selector" . | nindent 4 }}
  annotations:
    # Changes only with keys that need a restart; the others reload.
    meridian/restart: {{ include "meridian.restartKeys" . | sha256sum | trunc 16 | quote }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "meridian.name" . }}
  # A token only where `config.discovery` asks the API server.
  automountServiceAccountToken: {{ if include "meridian.asked" . | fromYaml }}true{{ else }}false{{ end }}
  terminationGracePeriodSeconds: {{ include "meridian.gracePeriod" . }}
  securityContext: {{- include "meridian.podSecurity" . | nindent 4 }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: gateway
      image: {{ include "meridian.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [gateway, -c, /etc/meridian/gateway.yaml, --log-format, json]
      {{- with .Values.env }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: admin, containerPort: 8081}
        - {name: peers, containerPort: 8082}
      # On the admin port, which is served apart from clients and lets health checks in without a token.
      readinessProbe:
        httpGet: {path: /ready, port: admin, scheme: {{ $scheme }}}
        periodSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: {path: /health, port: admin, scheme: {{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      lifecycle:
        # The pod leaves its Services first; the gateway still accepts what arrives meanwhile.
        preStop: {sleep: {seconds: {{ .Values.preStopSeconds }}}}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext: {{- include "meridian.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/meridian, readOnly: true}
        - {name: secret-own, mountPath: /etc/meridian-secrets/own, readOnly: true}
        - {name: state, mountPath: /var/lib/meridian}
        {{- range .Values.secrets.mounts }}
        - {name: {{ printf "secret-%s" . }}, mountPath: {{ printf "/etc/meridian-secrets/%s" . }}, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "meridian.name" . }}}
    - name: secret-own
      secret:
        secretName: {{ include "meridian.secret" . }}
        items:
          - {key: peers-secret, path: peers-secret}
          - {key: admin-token-hash, path: admin-token-hash}
          {{- if .Values.control.enabled }}
          - {key: control-token, path: control-token}
          {{- end }}
    # control.view, which lets a gateway start again without the control plane.
    - name: state
      emptyDir: {}
    {{- range .Values.secrets.mounts }}
    - name: {{ printf "secret-%s" . }}
      secret: {secretName: {{ . }}}
    {{- end }}
  topologySpreadConstraints:
    {{- with .Values.topologySpreadConstraints }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      {{- if not $.Values.regions.enabled }}
      # In a rollout, only pods of the new revision count.
      matchLabelKeys: [pod-template-hash]
      {{- end }}
      labelSelector:
        matchLabels: {{- include "meridian.selector" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end }}

{{/* The image's user, 65532, and nothing that Kubernetes' profile "restricted" forbids. */}}
{{- define "meridian.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "meridian.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
