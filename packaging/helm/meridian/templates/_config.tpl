{{/* The files of the gateway and of the control plane. */}}

{{/* The chart's own settings of a gateway. `threads` is fixed, since a gateway would start one for each
     core of the node. */}}
{{- define "meridian.ownConfig" -}}
version: 1
listen: 0.0.0.0:8080
admin: 0.0.0.0:8081
threads: 2
admin_access:
  tokens: [{file: /etc/meridian-secrets/own/admin-token-hash}]
timeouts: {drain: 5m}
peers:
  listen: 0.0.0.0:8082
  siblings: {dns: "{{ include "meridian.name" . }}-peers.{{ .Release.Namespace }}.svc:8082"}
{{- /* Certificates take the place of the secret. */}}
{{- if not (or (dig "peers" "ca" "" .Values.config) (dig "peers" "certificate" "" .Values.config)) }}
  secret: {file: /etc/meridian-secrets/own/peers-secret}
{{- end }}
{{- if .Values.control.enabled }}
control:
  url: http://{{ include "meridian.name" . }}-control.{{ .Release.Namespace }}.svc:8090
  token: {file: /etc/meridian-secrets/own/control-token}
  view: /var/lib/meridian/control.view
{{- end }}
{{- end }}

{{- define "meridian.config" -}}
{{- $own := include "meridian.ownConfig" . | fromYaml -}}
{{- $all := mustMergeOverwrite $own (deepCopy .Values.config) -}}
{{- $wanted := list (list "listen" $all.listen "8080") (list "admin" $all.admin "8081") (list "peers.listen" $all.peers.listen "8082") -}}
{{- range $wanted -}}
{{- if not (hasSuffix (printf ":%s" (index . 2)) (toString (index . 1))) -}}
{{- fail (printf "config.%s: `%v` does not have the port %s, which the pod's Services use; keep the port, as in \"[::]:%s\", and set service.port for clients" (index . 0) (index . 1) (index . 2) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/* The settings that gateways take only at their start: the keys with "no" in the table of
     docs/configuration.md. */}}
{{- define "meridian.restartKeys" -}}
{{- $all := include "meridian.config" . | fromYaml -}}
{{- $keys := pick $all "admin" "control" "listen" "region" "secret" "threads" -}}
{{- $_ := set $keys "admin_access" (dict "tls" (dig "admin_access" "tls" dict $all)) -}}
{{- $_ := set $keys "peers" (omit $all.peers "accept" "stale" "tau" "tau_own") -}}
{{- $_ := set $keys "tls" (hasKey $all "tls") -}}
{{- toJson $keys -}}
{{- end }}

{{- define "meridian.controlConfig" -}}
{{- $own := dict "version" 1 "admin" "0.0.0.0:8090" "token" (dict "file" "/etc/meridian-secrets/own/control-token") -}}
{{- if not .Values.control.config.etcd -}}
{{- $_ := set $own "store" "/var/lib/meridian/control.redb" -}}
{{- if gt (int .Values.control.replicas) 1 -}}
{{- fail (printf "control.replicas: %d control planes cannot share a file; set control.config.etcd, or use 1" (int .Values.control.replicas)) -}}
{{- end -}}
{{- end -}}
{{- $all := mustMergeOverwrite $own (deepCopy .Values.control.config) -}}
{{- if not (hasSuffix ":8090" (toString $all.admin)) -}}
{{- fail (printf "control.config.admin: `%v` does not have the port 8090, which the Service uses; keep the port" $all.admin) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}
