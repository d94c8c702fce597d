// Package v1beta1 stands in for that of kubevirt.io/virt-template-api: as much of its kind as KubeVirt's
// exporter names.
package v1beta1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const ConditionReady = "Ready"

type VirtualMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMachineTemplateSpec   `json:"spec"`
	Status VirtualMachineTemplateStatus `json:"status,omitempty"`
}

type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension `json:"virtualMachine,omitempty"`
	Parameters     []Parameter           `json:"parameters,omitempty"`
}

type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

type VirtualMachineTemplateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	if t == nil {
		return nil
	}
	copied := *t
	t.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.VirtualMachine = t.Spec.VirtualMachine.DeepCopy()
	copied.Spec.Parameters = slices.Clone(t.Spec.Parameters)
	copied.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &copied
}

func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object {
	if t == nil {
		return nil
	}
	return t.DeepCopy()
}
