{{/* A time of the gateway's file in whole seconds, rounded up. */}}
{{- define "meridian.seconds" -}}
{{- $text := toString .value -}}
{{- if not (regexMatch "^([0-9]+(ms|s|m|h) ?)+$" $text) -}}
{{- fail (printf "%s: `%s` is not a time that the chart can add up; write it as in 30s, 5m or 1h" .key $text) -}}
{{- end -}}
{{- $ms := 0 -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" $text -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $ms = add $ms (mul (trimSuffix $unit . | int64) (get $units $unit)) -}}
{{- end -}}
{{- div (add $ms 999) 1000 -}}
{{- end }}

{{- define "meridian.gracePeriod" -}}
{{- $all := include "meridian.config" . | fromYaml -}}
{{- $drain := include "meridian.seconds" (dict "key" "config.timeouts.drain" "value" $all.timeouts.drain) | int64 -}}
{{- $least := add $drain (int64 .Values.preStopSeconds) -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $least 10 -}}
{{- else if le (int64 $given) $least -}}
{{- fail (printf "terminationGracePeriodSeconds: %d s end while a gateway still answers: preStopSeconds (%d) and config.timeouts.drain (%d s) are %d s; use %d or more, or leave it out" (int64 $given) (int64 .Values.preStopSeconds) $drain $least (add $least 1)) -}}
{{- else -}}
{{- int64 $given -}}
{{- end -}}
{{- end }}
