{{/* Names and labels. */}}

{{- define "meridian.name" -}}
{{- $of := printf "%s-meridian" .Release.Name -}}
{{- if contains "meridian" .Release.Name }}{{ $of = .Release.Name }}{{ end -}}
{{- /* Short enough for the suffixes below, and for a pod's name in a host's name. */ -}}
{{- default $of .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "meridian.selector" -}}
app.kubernetes.io/name: meridian
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "meridian.controlSelector" -}}
app.kubernetes.io/name: meridian
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: control
{{- end }}

{{- define "meridian.common" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "meridian.secret" -}}
{{ default (include "meridian.name" .) .Values.secrets.existing }}
{{- end }}

{{- define "meridian.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
