{{/* The name of the objects; those of the exporter have a suffix. */}}
{{- define "nri-numamem.name" -}}
{{ .Values.nameOverride | default .Release.Name }}
{{- end }}

{{- define "nri-numamem.selectorLabels" -}}
app.kubernetes.io/name: nri-numamem
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nri-numamem.exportLabels" -}}
app.kubernetes.io/name: nri-numamem-export
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nri-numamem.labels" -}}
{{ include "nri-numamem.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "nri-numamem.resources" -}}
requests:
  cpu: {{ .Values.resources.cpu }}
  memory: {{ .Values.resources.memory }}
{{- with .Values.resources.limits }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "nri-numamem.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if .Values.claims.enabled }}
{{- $claims := dict "enabled" true "hookProgram" "/opt/nri-numamem/bin/claim-hook" }}
{{- $config = mustMergeOverwrite $config (dict "claims" $claims) }}
{{- end }}
{{- if ne .Values.rebalance.policy "none" }}
{{- $config = mustMergeOverwrite $config (dict "earmarks" (dict "enabled" true)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- define "nri-numamem.hasAgent" -}}
{{- if or .Values.export.enabled .Values.claims.enabled (ne .Values.rebalance.policy "none") }}true{{- end }}
{{- end }}
