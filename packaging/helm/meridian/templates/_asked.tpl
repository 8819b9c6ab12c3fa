{{/* What the gateways read of the API server, by namespace, from `config.discovery`: EndpointSlices of
     Services, and pods where they select pods or read pods' labels. */}}
{{- define "meridian.asked" -}}
{{- $asked := dict -}}
{{- range .Values.config.discovery -}}
{{- with .kubernetes -}}
{{- /* Another cluster, with credentials of its own. */ -}}
{{- if not .kubeconfig -}}
{{- $namespace := default $.Release.Namespace .namespace -}}
{{- $so := get $asked $namespace | default dict -}}
{{- if .service }}{{ $_ := set $so "endpointslices" true }}{{ end -}}
{{- if or .selector .role_label .rank_label .revision_label }}{{ $_ := set $so "pods" true }}{{ end -}}
{{- $_ := set $asked $namespace $so -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $asked -}}
{{- end }}
