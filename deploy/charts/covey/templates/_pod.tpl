{{/* What the pods of operator and webhook have in common. */}}

{{- define "covey.podAnnotations" -}}
covey.dev/config-checksum: {{ include "covey.config" . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "covey.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "covey.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
privileged: false
readOnlyRootFilesystem: true
{{- end }}

{{- define "covey.namespaceEnv" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{- define "covey.probes" -}}
# Waits for a slow machine, and notices a quick one within a second.
startupProbe:
  httpGet:
    path: /livez
    port: probes
  periodSeconds: 1
  failureThreshold: 120
  timeoutSeconds: 5
livenessProbe:
  httpGet:
    path: /livez
    port: probes
  periodSeconds: 10
  failureThreshold: 6
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: probes
  periodSeconds: 2
  failureThreshold: 3
  timeoutSeconds: 5
{{- end }}

{{/* Not empty where roles of AWS are taken on by a token of the operator's own account. */}}
{{- define "covey.awsToken" -}}
{{- if dig "providers" "aws" "webIdentity" "roles" dict (.Values.config | default dict) }}yes{{ end -}}
{{- end }}

{{- define "covey.configVolume" -}}
- name: config
  configMap:
    name: covey-config
{{- end }}

{{/* root, and the selector of the pods that are to be apart. */}}
{{- define "covey.placement" -}}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .root.Values.affinity }}
  {{- toYaml .root.Values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- .selector | nindent 14 }}
  {{- end }}
{{- end }}
