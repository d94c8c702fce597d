// Command manifests prints what installs KubeVirt, made by KubeVirt's own code.
//
//	manifests install <namespace>   objects of the release's operator manifest, as a List in JSON
//	manifests crd <plural>          one definition that the operator installs, as YAML
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
	"sigs.k8s.io/yaml"
)

const (
	repository = "quay.io/kubevirt"
	version    = "v1.6.0"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "install" {
		return install(args[1])
	}
	if len(args) == 2 && args[0] == "crd" {
		return crd(args[1])
	}
	return fmt.Errorf("usage: manifests install <namespace> | manifests crd <plural>")
}

func crd(plural string) error {
	makers := []func() (*extv1.CustomResourceDefinition, error){
		components.NewKubeVirtCrd,
		components.NewVirtualMachineCrd,
		components.NewVirtualMachineInstanceCrd,
		components.NewVirtualMachineInstanceMigrationCrd,
	}
	for _, maker := range makers {
		made, err := maker()
		if err != nil {
			return err
		}
		if made.Spec.Names.Plural != plural {
			continue
		}
		object, err := bare(made)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	}
	return fmt.Errorf("no definition of %q", plural)
}

func install(namespace string) error {
	definition, err := components.NewKubeVirtCrd()
	if err != nil {
		return err
	}
	objects := []any{
		&corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{
				Name: namespace,
				Labels: map[string]string{
					"kubevirt.io":                        "",
					"pod-security.kubernetes.io/enforce": "privileged",
				},
			},
		},
		definition,
		components.NewKubeVirtPriorityClassCR(),
		// The release's manifest has this role written by hand.
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "kubevirt.io:operator",
				Labels: map[string]string{
					"operator.kubevirt.io":                         "",
					"rbac.authorization.k8s.io/aggregate-to-admin": "true",
				},
			},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"kubevirt.io"},
				Resources: []string{"kubevirts"},
				Verbs: []string{
					"get", "delete", "create", "update", "patch", "list", "watch", "deletecollection",
				},
			}},
		},
	}
	for _, object := range rbac.GetAllOperator(namespace) {
		objects = append(objects, object)
	}
	none := ""
	deployment := components.NewOperatorDeployment(
		namespace, repository, "", version, "2", version,
		// No digests, no images of their own, no runbooks: all follow from the operator's image.
		none, none, none, none, none, none, none, none, none, none, none,
		none, none, none, none, none, none, none, none, none, none,
		none, corev1.PullIfNotPresent,
	)
	objects = append(objects, deployment)

	items := make([]map[string]any, 0, len(objects))
	for _, object := range objects {
		item, err := bare(object)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	return json.NewEncoder(os.Stdout).Encode(list)
}

// bare leaves out what only the API server writes.
func bare(object any) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(fields, "spec", "template", "metadata", "creationTimestamp")
	return fields, nil
}
