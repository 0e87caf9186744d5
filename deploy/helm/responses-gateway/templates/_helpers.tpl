{{- define "gateway.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the containers of a pod have in common: the image, its rights, the configuration and its variables. */}}
{{- define "gateway.container" -}}
image: {{ include "gateway.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .Values.existingSecret }}
envFrom:
  - secretRef: {name: {{ . | quote }}}
{{- end }}
volumeMounts:
  - {name: config, mountPath: /etc/responses-gateway, readOnly: true}
  - {name: state, mountPath: /var/lib/responses-gateway}
  - {name: tmp, mountPath: /tmp}
resources: {{ toYaml .Values.resources | nindent 2 }}
{{- end -}}

{{/* Values that fit their schema, and would not do what they seem to. */}}
{{- define "gateway.check" -}}
{{- if ne (toString .Values.resources.requests.memory) (toString .Values.resources.limits.memory) -}}
{{- fail "resources: the requested memory must be the limit" -}}
{{- end -}}
{{- if and (not .Values.existingSecret) (regexMatch "[$][{]|_env:" .Values.config) -}}
{{- fail "existingSecret: config names environment variables, so name the Secret that has them" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: name the Gateway that the route is for" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.min) (int .Values.autoscaling.max)) -}}
{{- fail "autoscaling.max: it must be at least autoscaling.min" -}}
{{- end -}}
{{- end -}}
