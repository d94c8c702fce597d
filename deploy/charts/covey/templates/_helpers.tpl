{{/* Names are fixed, not derived from the release: the CustomResourceDefinitions and the
     operator's rights exist once per management cluster, so a second release must collide. */}}

{{/* Of operator and webhook alike. */}}
{{- define "covey.names" -}}
app.kubernetes.io/name: covey
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "covey.selector" -}}
{{ include "covey.names" . }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "covey.webhookSelector" -}}
{{ include "covey.names" . }}
app.kubernetes.io/component: webhook
{{- end }}

{{- define "covey.activatorSelector" -}}
{{ include "covey.names" . }}
app.kubernetes.io/component: activator
{{- end }}

{{- define "covey.dashboardSelector" -}}
{{ include "covey.names" . }}
app.kubernetes.io/component: dashboard
{{- end }}

{{- define "covey.releaseLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: covey
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "covey.labels" -}}
{{ include "covey.selector" . }}
{{ include "covey.releaseLabels" . }}
{{- end }}

{{- define "covey.webhookLabels" -}}
{{ include "covey.webhookSelector" . }}
{{ include "covey.releaseLabels" . }}
{{- end }}

{{- define "covey.activatorLabels" -}}
{{ include "covey.activatorSelector" . }}
{{ include "covey.releaseLabels" . }}
{{- end }}

{{- define "covey.dashboardLabels" -}}
{{ include "covey.dashboardSelector" . }}
{{ include "covey.releaseLabels" . }}
{{- end }}

{{- define "covey.doctorLabels" -}}
{{ include "covey.names" . }}
app.kubernetes.io/component: doctor
{{ include "covey.releaseLabels" . }}
{{- end }}

{{/* The order among objects of `helm test`. */}}
{{- define "covey.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Checks of `covey doctor` from 5 to 14, but for 9, which is about tenant clusters, and those of what these values leave out. */}}
{{- define "covey.doctorChecks" -}}
5,6,7,8,10,{{ if .Values.admissionPolicies.enabled }}11,{{ end }}12,13,14
{{- end }}

{{/* image, and root. */}}
{{- define "covey.imageOf" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "covey.image" -}}
{{ include "covey.imageOf" (dict "image" .Values.image "root" .) }}
{{- end }}

{{/* The name under which the API server sees the operator. */}}
{{- define "covey.username" -}}
system:serviceaccount:{{ .Release.Namespace }}:covey-operator
{{- end }}

{{/* What the user set, the one setting that only the release knows, and the way to the management API, which
programs in tenant namespaces go as the operator does. */}}
{{- define "covey.config" -}}
{{- $api := dict "managementApi" .Values.networkPolicy.managementApi }}
{{- /* Without the policies nobody checks who asks for an AccessGrant, and for whom. */}}
{{- $access := dict }}
{{- if not .Values.admissionPolicies.enabled }}
{{- $access = dict "access" (dict "enabled" false) }}
{{- end }}
{{- /* Whoever has the PodMonitor is let in, too. */}}
{{- $metrics := dict }}
{{- if .Values.metrics.tenants.enabled }}
{{- $metrics = dict "metrics" (dict "from" .Values.metrics.tenants.from) }}
{{- end }}
{{- toYaml (merge (dict "operatorNamespace" .Release.Namespace) $access .Values.config $api $metrics) }}
{{- end }}

{{/* Matches requests of the operator's own account. */}}
{{- define "covey.byTheOperator" -}}
- name: by-the-operator
  expression: request.userInfo.username == {{ include "covey.username" . | squote }}
{{- end }}

{{/* Whether a request is of this account of a tenant namespace, whichever. */}}
{{- define "covey.byProgram" -}}
request.userInfo.username.startsWith('system:serviceaccount:covey-') &&
request.userInfo.username.endsWith(':{{ . }}')
{{- end }}

{{- define "covey.policyVariables" -}}
- name: subject
  expression: "request.operation == 'DELETE' ? oldObject : object"
- name: inTenantNamespace
  expression: >-
    namespaceObject.metadata.name.startsWith('covey-') &&
    namespaceObject.metadata.name != {{ .Release.Namespace | squote }} &&
    has(namespaceObject.metadata.labels) &&
    'covey.dev/tenant-cluster-uid' in namespaceObject.metadata.labels
{{- end }}
